local t = {} for i = 1, 400000 do t[i % 50000] = {i, tostring(i), {x = i}} end
local s = {} for i = 1, 200000 do s[#s + 1] = "part " .. i end print(#table.concat(s))