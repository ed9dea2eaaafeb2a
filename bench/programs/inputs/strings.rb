s = ""; (1..60).each { |n| s = "x"; 14.times { s += s; s << n.to_s }; $a = s.split("x").map { |p| p + "y" } }
puts (1..400).map { |i| (1..i * 20).to_a.map(&:to_s) }.flatten.size