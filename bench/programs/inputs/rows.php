<?php mt_srand(7); $rows = [];
for ($size = 0; $size < 60 << 20; $size += $n) { $n = 1 << mt_rand(4, 14); $rows[] = mt_rand(0, 1) ? str_repeat('x', $n) : range(1, $n >> 4); }
unset($rows); echo getmypid(), "\n";
