#!/usr/bin/env bash
# Starts a fleet of two nodes on this machine, calls both, and leaves them running until Ctrl-C. FLEET_PORT is the first of
# the ports, and TOOLHOST_BIN the directory of the programs.
set -euo pipefail
cd "$(dirname "$0")"
bin=${TOOLHOST_BIN:-bin}
port=${FLEET_PORT:-7443}
dir=$(mktemp -d)
nodes=()
unset TOOLHOST_CONFIG

stop() {
  trap '' INT TERM
  kill "${nodes[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  kill "$(cat "$dir/one/fleet/coordinator/lock" 2>/dev/null)" 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 0' INT TERM

mkdir "$dir/repo"
echo 'a file of the shared workspace' > "$dir/repo/notes.txt"
cat > "$dir/fleet.hcl" <<END
fleet {
  workspace "repo" {
    path   = "$dir/repo"
    shared = "demo"
  }
}
END
export TOOLHOST_TOKEN=demo

# start NODE FLEET-PORT HTTP-PORT [ARGUMENTS]
start() {
  "$bin/toolhost" --config "$dir/fleet.hcl" --state "$dir/$1" --workspace "$dir/repo" serve --fleet --fleet-node "$1" \
    --fleet-listen "127.0.0.1:$2" --listen "127.0.0.1:$3" "${@:4}" > "$dir/$1.log" 2>&1 &
  nodes+=($!)
  for _ in $(seq 300); do
    grep -q 'listening on' "$dir/$1.log" && return
    kill -0 "${nodes[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$dir/$1.log" >&2
  exit 1
}

# call HTTP-PORT COMMAND
call() {
  printf '\n\033[1m▸ at 127.0.0.1:%s: %s\033[0m\n' "$1" "$2"
  curl -sS -H 'Authorization: Bearer demo' -d "{\"session\": \"demo\", \"command\": \"$2\"}" "http://127.0.0.1:$1/v1/run"
}

web=$((port + 20))
start one "$port" "$web"
"$bin/toolhost" --config "$dir/fleet.hcl" --state "$dir/one" fleet token > "$dir/token" 2>/dev/null
start two $((port + 10)) $((web + 1)) --fleet-token-file "$dir/token" join "127.0.0.1:$port"

call "$web" 'read notes.txt'
call $((web + 1)) 'read notes.txt'
call "$web" 'COLOR=green'
call $((web + 1)) 'echo the session knows $COLOR on either node'
printf '\n\033[1m▸ toolhost fleet status\033[0m\n'
"$bin/toolhost" --config "$dir/fleet.hcl" --state "$dir/one" fleet status
cat <<END

Both nodes run until Ctrl-C. In another terminal, look at the fleet, or end a node and call the other one:
  $bin/toolhost --config $dir/fleet.hcl --state $dir/one fleet sessions
  kill -9 ${nodes[0]}
  curl -H 'Authorization: Bearer demo' -d '{"session": "demo", "command": "read notes.txt"}' http://127.0.0.1:$((web + 1))/v1/run
END
wait
