
class Node:
    def __init__(self, left, right): self.left, self.right = left, right
def tree(depth): return Node(tree(depth - 1), tree(depth - 1)) if depth else Node(None, None)
def count(node): return 1 + (count(node.left) + count(node.right) if node.left else 0)
print(sum(count(tree(13)) for _ in range(12)))
words = {}
for i in range(200000): words.setdefault("word %d" % (i * 7919 % 30011), []).append(str(i))
print(len(",".join("".join(words[key]) for key in sorted(words))))
