# Four sessions of PostgreSQL that sort once, ask $3 trivial questions, ten a second, and stay: sorts.sh PSQL FOLDER QUESTIONS
for n in 1 2 3 4; do
    {
        echo "select count(*) from (select md5(g::text) m from generate_series(1, 600000) g order by m) t;"
        for question in $(seq "$3"); do
            sleep 0.1
            echo "select 1;"
        done
        printf '\\echo loaded\n'
        sleep 600
    } | "$1" -h "$2" -U idle -d postgres -qAtX &
done
wait
