#!/bin/bash
# Runs ragd on a Citus cluster of a coordinator and two workers on this machine: three tenants ingest, ask, delete; what each node holds is shown.
#   PGBIN=/usr/lib/postgresql/18/bin RAGD=./ragd scripts/citus.sh FOLDER-OF-DOCUMENTS
# PGBIN has PostgreSQL with the extensions citus and vector. As root the servers run as nobody. Everything lies in a folder of its own, removed at the end.
set -eu
bin=${PGBIN:?the folder of postgres, initdb and psql} ragd=${RAGD:-ragd} documents=${1:?a folder of documents}
dir=$(mktemp -d /tmp/ragd-citus.XXXXXX)
as=""
if [ "$(id -u)" = 0 ]; then as="setpriv --reuid=65534 --regid=65534 --clear-groups"; chown 65534:65534 "$dir"; fi
port() { echo $((15430 + $1)); }
stop() { for n in 0 1 2; do [ -f "$dir/$n/postmaster.pid" ] && kill -INT "$(head -1 "$dir/$n/postmaster.pid")" || true; done; sleep 1; rm -rf "$dir"; }
trap stop EXIT
sql() { "$bin/psql" -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$(port "$1")" -U "${3:-postgres}" -d ragd -At -c "$2"; }
for n in 0 1 2; do
  $as "$bin/initdb" -D "$dir/$n" -U postgres --auth=trust -E UTF8 --locale=C --lc-ctype=C.UTF-8 --locale-provider=builtin --builtin-locale=C.UTF-8 --no-instructions >/dev/null
  $as "$bin/postgres" -D "$dir/$n" -p "$(port $n)" -k "$dir" -c listen_addresses=127.0.0.1 -c shared_preload_libraries=citus -c wal_level=logical -c citus.node_conninfo=sslmode=disable >"$dir/$n.log" 2>&1 &
done
for n in 0 1 2; do
  until "$bin/psql" -X -q -h 127.0.0.1 -p "$(port $n)" -U postgres -d postgres -c 'SELECT 1' >/dev/null 2>&1; do sleep 0.2; done
  # ragd's user may not make roles: its second belt, row-level security by a role of the session, does not reach the workers.
  "$bin/psql" -X -q -h 127.0.0.1 -p "$(port $n)" -U postgres -d postgres -c "CREATE ROLE ragd LOGIN" -c "CREATE DATABASE ragd OWNER ragd"
  sql $n "CREATE EXTENSION citus; CREATE EXTENSION vector"
done
sql 0 "SELECT citus_set_coordinator_host('127.0.0.1', $(port 0)); SELECT citus_add_node('127.0.0.1', $(port 1)), citus_add_node('127.0.0.1', $(port 2))" >/dev/null
export DATABASE_URL="postgres://ragd@127.0.0.1:$(port 0)/ragd?sslmode=disable"
"$ragd" migrate
"$bin/psql" -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$(port 0)" -U ragd -d ragd -f "$(dirname "$0")/citus.sql"
echo "tables: $(sql 0 "SELECT string_agg(table_name::text || ' ' || citus_table_type, ', ' ORDER BY 1) FROM citus_tables")"
declare -A key
for tenant in acme globex initech; do key[$tenant]=$("$ragd" keys create --tenant $tenant --name $tenant --role editor 2>/dev/null); done
address=127.0.0.1:15440
"$ragd" serve --listen $address >"$dir/ragd.log" 2>&1 & server=$!
until curl -sf $address/readyz >/dev/null; do kill -0 $server || { cat "$dir/ragd.log"; exit 1; }; sleep 0.2; done
ask() { curl -s -H "Authorization: Bearer ${key[$1]}" "${@:3}" "$address$2"; }
for tenant in acme globex initech; do
  for file in "$documents"/*; do ask $tenant /v1/documents -F corpus=handbook -F file=@"$file" -o /dev/null -w '%{http_code} ' ; done
  for try in $(seq 120); do [ "$(ask $tenant '/v1/jobs' | grep -c '"state":"\(received\|parsed\|split\|embedded\)"')" = 0 ] && break; sleep 0.5; done
  echo "$tenant: $(ask $tenant '/v1/documents?limit=100' | grep -o '"state":"[a-z]*"' | sort | uniq -c | tr '\n' ' ')"
done
for n in 1 2; do echo "worker $n: $(sql 0 "SELECT coalesce(sum(result::int), 0) FROM run_command_on_placements('passage_vectors', 'SELECT count(*) FROM %s') p WHERE nodeport = $(port $n)") passages"; done
for tenant in acme globex initech; do
  echo "$tenant: $(ask $tenant /v1/ask -d "{\"question\":\"${QUESTION:-What is the hotel limit per night in Oslo?}\"}" | head -c 300)"
done
id=$(ask acme '/v1/documents?limit=1' | grep -o '"id":[0-9]*' | head -1 | cut -d: -f2)
echo "acme deletes document $id: $(ask acme "/v1/documents/$id" -X DELETE -o /dev/null -w '%{http_code}'), globex asks for it: $(ask globex "/v1/documents/$id" -o /dev/null -w '%{http_code}')"
sql 0 "EXPLAIN (COSTS OFF) SELECT passage FROM passage_vectors WHERE tenant = 'acme' AND corpus = ANY ('{1}')" ragd | head -5
grep -i 'level=\(warn\|error\)' "$dir/ragd.log" || true
kill $server; wait $server || true
