package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/google/pprof/profile"

	"toolhost.dev/host/mcp"

	"toolhost.dev/bench/internal/mcpstdio"
)

// budgetTime is how long budget calls for one number of callers.
const budgetTime = 10 * time.Second

// budget prints how much processor time a read of 10 KB over MCP needs in each part of the host, and in the plugin. The
// server and its client run in this process, which profiles itself.
func budget(ctx context.Context, bin string) error {
	h, dir, done, err := sampleHost(ctx, bin)
	if err != nil {
		return err
	}
	defer done()
	server, err := mcp.New(h, mcp.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	requests, toServer := io.Pipe()
	fromServer, answers := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, requests, answers) }()
	client, err := mcpstdio.Connect(ctx, toServer, fromServer)
	if err != nil {
		return err
	}
	args, err := json.Marshal(map[string]string{"file_path": filepath.Join(dir, sampleFile)})
	if err != nil {
		return err
	}
	read := func() error {
		body, err := client.Call(ctx, "read", args)
		if err == nil && len(body) < fileSize {
			err = fmt.Errorf("the server returns %s", body)
		}
		return err
	}
	for _, callers := range []int{1, 16} {
		if _, err := rate(callers, time.Second, read); err != nil { // a warm-up
			return err
		}
		if err := printBudget(callers, read); err != nil {
			return err
		}
	}
	client.Stop()
	return <-served
}

// printBudget prints the processor time of a call by part, for a number of callers.
func printBudget(callers int, read call) error {
	var calls atomic.Int64
	before, err := usedBy(os.Getpid())
	if err != nil {
		return err
	}
	var samples bytes.Buffer
	if err := pprof.StartCPUProfile(&samples); err != nil {
		return err
	}
	_, err = rate(callers, budgetTime, func() error {
		calls.Add(1)
		return read()
	})
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	after, err := usedBy(os.Getpid())
	if err != nil {
		return err
	}
	p, err := profile.Parse(&samples)
	if err != nil {
		return err
	}
	perCall := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(calls.Load()) }
	parts, client, total := timeByPart(p)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%d callers\tµs\tof the host\t\n", callers)
	for _, part := range slices.SortedFunc(maps.Keys(parts), func(a, b string) int { return cmp.Compare(parts[b], parts[a]) }) {
		if d := parts[part]; d*200 >= total { // at least 0.5 %
			fmt.Fprintf(out, "%s\t%.1f\t%.1f %%\t\n", part, perCall(d), 100*float64(d)/float64(total))
		}
	}
	fmt.Fprintf(out, "host\t%.0f\t\t\nplugin\t%.0f\t\t\nclient of the benchmark\t%.0f\t\t\n", perCall(total), perCall(after.descendants-before.descendants), perCall(client))
	return out.Flush()
}

// runtimeParts maps functions of Go's runtime to the part that has their time, whoever called them.
var runtimeParts = map[string]string{
	"runtime.gcBgMarkWorker": "garbage collection", "runtime.gcAssistAlloc": "garbage collection", "runtime.bgsweep": "garbage collection",
	"runtime.mallocgc": "allocation", "runtime.growslice": "allocation", "runtime.newstack": "growth of stacks",
	"runtime.schedule": "switches of goroutines", "runtime.findRunnable": "switches of goroutines", "runtime.wakep": "switches of goroutines",
	"runtime.sysmon": "switches of goroutines",
}

// libraryParts maps prefixes of functions to the part that uses the library.
var libraryParts = map[string]string{
	"google.golang.org/grpc": "transport to the plugin", "google.golang.org/protobuf": "transport to the plugin", "toolhost.dev/sdk/toolrpc": "transport to the plugin",
	"toolhost.dev/sdk/toolpb": "transport to the plugin", "modernc.org/": "database", "database/sql": "database", "toolhost.dev/sdk/statedb": "database",
}

// timeByPart splits the processor time of a profile. A part is a package of toolhost, a library or a duty of Go's
// runtime. The results "parts" and "total" do not contain the time of the client, which is returned separately.
func timeByPart(p *profile.Profile) (parts map[string]time.Duration, client, total time.Duration) {
	parts = make(map[string]time.Duration)
	for _, s := range p.Sample {
		d := time.Duration(s.Value[len(s.Value)-1])
		part := partOf(s)
		if part == "bench" {
			client += d
			continue
		}
		parts[part] += d
		total += d
	}
	return parts, client, total
}

// partOf returns the part that a sample belongs to. This is the part of its innermost function that has one, unless the
// runtime was on a duty of its own.
func partOf(s *profile.Sample) string {
	ours := ""
	duty := ""
	for _, l := range s.Location { // from the innermost function to the outermost
		for _, line := range l.Line {
			name := line.Function.Name
			if part := runtimeParts[name]; part != "" && duty == "" {
				duty = part
			}
			if ours == "" {
				ours = packagePart(name)
			}
		}
	}
	switch {
	case ours == "bench" || duty == "":
		return cmp.Or(ours, "other")
	default:
		return duty
	}
}

// packagePart returns the part of a function's package. It returns "" for a function of another library.
func packagePart(function string) string {
	for prefix, part := range libraryParts {
		if strings.HasPrefix(function, prefix) {
			return part
		}
	}
	if strings.HasPrefix(function, "main.") || strings.HasPrefix(function, "toolhost.dev/bench") {
		return "bench"
	}
	path, ok := strings.CutPrefix(function, "toolhost.dev/")
	if !ok {
		return ""
	}
	slash := strings.LastIndexByte(path, '/')
	name, _, _ := strings.Cut(path[slash+1:], ".")
	return path[:slash+1] + name
}
