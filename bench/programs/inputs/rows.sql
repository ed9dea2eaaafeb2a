create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t select i, 'text ' || (i * 7919 % 99991), i / 3.0 from n;
create index u on t(b); select count(*), sum(length(b)) from t where b > 'text 5'; update t set b = b || 'x' where a % 3 = 0;
select b, count(*) from t group by b order by 2 desc limit 5; delete from t where a % 2 = 0;