class Node; attr_reader :left, :right; def initialize(l, r) @left, @right = l, r end end
def tree(d) d > 0 ? Node.new(tree(d - 1), tree(d - 1)) : Node.new(nil, nil) end
6.times { tree(14) }; h = {}; 120000.times { |i| (h["word #{i * 7919 % 30011}"] ||= []) << "text #{i}" * (i % 9) }
puts h.keys.sort.map { |k| h[k].join(',') }.join.size