# Hashes, regular expressions, sorting and growing strings: the same output on any allocator.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);

my $state = 12345;
sub next_random { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state >> 8; }

my %count;
my $text = '';
for my $i (1 .. 60000) {
    my $word = join '', map { chr(97 + next_random() % 6) } 1 .. 1 + next_random() % 12;
    $count{$word}++;
    $text .= "$word ";
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print scalar(@sorted), " words, most often: @sorted[0 .. 9]\n";

my $found = 0;
$found++ while $text =~ /\b(a\w*?)(b+)(\w*)\s+(\w+)\b/g;
print "$found matches\n";
(my $changed = $text) =~ s/(\w)(\w*)/$2$1ay/g;
print sha256_hex($changed), "\n";

my @tree;
for my $i (1 .. 40000) {
    my $node = { value => next_random(), children => [] };
    push @{ $tree[ next_random() % @tree ]{children} }, $node if @tree;
    push @tree, $node;
}
my $sum = 0;
$sum += @{ $_->{children} } * ($_->{value} % 97) for @tree;
print "$sum\n";
delete @count{ grep { length > 4 } keys %count } for 1 .. 3;
print scalar(keys %count), " short words\n";
