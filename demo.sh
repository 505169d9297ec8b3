#!/usr/bin/env bash
# Shows what an agent sees: each command below is sent as one string.
set -euo pipefail
cd "$(dirname "$0")"
state=$(mktemp -d)
trap 'rm -rf "$state" demo-notes.txt' EXIT
unset TOOLHOST_CONFIG

agent() {
  printf '\n\033[1m▸ %s\033[0m\n' "$1"
  bin/toolhost --state "$state" run "$1" 2>&1 || true
}

agent 'help'
agent 'glob "sdk/tool/*.go"'
agent 'read sdk/tool/error.go --offset 11 --limit 9 --show_line_numbers'
agent 'grep "func .*Dispatcher\)" --glob "*.go" --path host --head_limit 4'
agent 'code_query Dispatcher --head_limit 4'
agent "write --file_path demo-notes.txt <<'EOF'
toolhost gives an agent its tools.
It is fats.
EOF"
agent 'edit demo-notes.txt --old_string fats --new_string fast'
agent 'edit demo-notes.txt --old_string slow --new_string fast'
agent 'read demo-notez.txt'
agent 'grep -c toolhost demo-notes.txt | xargs echo "lines that name it:"'
agent 'go list ./sdk/... | head -3'
printf '\n\033[1m▸ read go.work --limit 2\033[0m   (--json: as a program sees it)\n'
bin/toolhost --state "$state" --json run 'read go.work --limit 2'
