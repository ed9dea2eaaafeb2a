"""Inputs that are generated: `python3 make.py rows.json`, `text` or `repository`. The same bytes each time."""
import json, subprocess, sys

SYLLABLES = ["a", "the", "re", "in", "con", "ti", "on", "er", "ma", "lo", "sp", "ing", "est", "ur", "pa", "ge"]


def numbers(state):
    while True:  # Knuth's MMIX
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield state >> 33


def prose(seed, size):
    """Lines of words, few of them common and most rare."""
    random, parts, written = numbers(seed), [], 0
    while written < size:
        words = []
        for _ in range(6 + next(random) % 10):
            number, word = next(random) % (1 + next(random) % 12000), ""
            while not word or number:
                word, number = word + SYLLABLES[number % 16], number // 16
            words.append(word)
        parts.append(" ".join(words) + "\n")
        written += len(parts[-1])
    return "".join(parts)[:size]


def repository():
    """240 commits; the first has 200 files of 12 KB, each other one rewrites a part of eight."""
    random, stream, git = numbers(2), [], ["git", "-c", "safe.directory=*"]
    files = [[prose(1000 + file * 12 + part, 1000) for part in range(12)] for file in range(200)]
    for commit in range(240):
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1700000000 + commit * 3600} +0000\ndata 60\n{prose(commit, 60)}\n")
        for file in range(200) if commit == 0 else {next(random) % 200 for _ in range(8)}:
            files[file][commit % 12] = prose(10000 + commit * 200 + file, 1000)
            stream.append(f"M 100644 inline folder{file % 10}/file{file}\ndata 12000\n{''.join(files[file])}\n")
    subprocess.run([*git, "init", "-q", "--bare", "-b", "main", "repository"], check=True)
    subprocess.run([*git, "-C", "repository", "fast-import", "--quiet"], check=True, input="".join(stream).encode())


if __name__ == "__main__":
    if sys.argv[1] == "rows.json":
        rows = [{"id": i, "name": "name %d" % i, "tags": ["a%d" % (i % 7), "b"], "at": {"x": i / 3, "y": None}} for i in range(60000)]
        print(json.dumps(rows), file=open("rows.json", "w"))
    elif sys.argv[1] == "text":
        open("text", "w").write(prose(1, 6 << 20))
    else:
        repository()
