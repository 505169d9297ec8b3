package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"text/tabwriter"
	"time"
)

// benchmarkLine matches the name and the time in the output of Go benchmarks. If the benchmark reports a time in
// ns/call, it also matches this time.
var benchmarkLine = regexp.MustCompile(`(?m)^BenchmarkCall/(\w+)\S*\s+\d+\s+([0-9.]+) ns/op(?:\s+([0-9.]+) ns/call)?`)

// scheduling measures the scheduler's overhead per call. It runs a Go benchmark of the host, because the scheduler is
// internal to the host.
func scheduling(ctx context.Context, _ string) error {
	c := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkCall$", "-benchtime", "1s", "toolhost.dev/host/internal/scheduler")
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return fmt.Errorf("go test -bench: %w\n%s", err, text)
	}
	found := benchmarkLine.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		return fmt.Errorf("go test -bench gives no figures:\n%s", text)
	}
	what := map[string]string{"alone": "one call after the other", "beside": "16 callers by processor, calls beside each other", "behind": "the same, each call alone", "batch": "10 000 calls in line at once"}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	for _, f := range found {
		figure := string(f[2])
		if len(f[3]) > 0 {
			figure = string(f[3])
		}
		ns, err := strconv.ParseFloat(figure, 64)
		if err != nil {
			return err
		}
		d := time.Duration(ns)
		fmt.Fprintf(out, "%s\t%s a call\tat most 20 µs\t%s\n", what[string(f[1])], micros(d), verdict(d <= 20*time.Microsecond))
	}
	return nil
}
