package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"toolhost.dev/host"
)

// shimScript is a shell script that alternately measures /bin/true and tools that it runs as programs. It prints the
// median time of each program in microseconds.
const shimScript = `
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
for ((i = 0; i < 500; i++)); do
  a=${EPOCHREALTIME/[.,]/}; /bin/true
  b=${EPOCHREALTIME/[.,]/}; tool:read sample.txt --limit 1 >/dev/null || exit
  c=${EPOCHREALTIME/[.,]/}; tool:read -h >/dev/null || exit
  d=${EPOCHREALTIME/[.,]/}
  nothing+=($((b - a))) read+=($((c - b))) help+=($((d - c)))
done
printf '{"nothing":%d,"read":%d,"help":%d}' "$(median "${nothing[@]}")" "$(median "${read[@]}")" "$(median "${help[@]}")"`

// shims compares tools that a shell runs as programs with /bin/true in the same shell.
func shims(ctx context.Context, bin string) error {
	h, _, done, err := sampleHost(ctx, bin)
	if err != nil {
		return err
	}
	defer done()
	res := h.Run(ctx, host.Request{Command: shimScript}, nil)
	if !res.Success() {
		return res.Error
	}
	var m struct{ Nothing, Read, Help float64 }
	var data struct{ Stdout string }
	if err := json.Unmarshal(res.Data, &data); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(data.Stdout), &m); err != nil {
		return fmt.Errorf("the script printed %q: %w", data.Stdout, err)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	for _, row := range []struct {
		name string
		us   float64
	}{{"tool:read of a file", m.Read}, {"tool:read -h", m.Help}} {
		r := row.us / m.Nothing
		fmt.Fprintf(out, "%s, p50\tin the shell %.0f µs\t/bin/true %.0f µs\tratio %.2f\tat most 2.00\t%s\n", row.name, row.us, m.Nothing, r, verdict(r <= 2))
	}
	return nil
}
