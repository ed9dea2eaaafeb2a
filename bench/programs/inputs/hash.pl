my %h; for my $i (1..150000) { $h{"key $i"} = [$i, "value " x ($i % 5)] } my $n = 0;
for my $k (sort keys %h) { $n += length $h{$k}[1]; delete $h{$k} if $n % 3 } print scalar(keys %h), "\n";