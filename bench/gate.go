package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// gatePackages is the number of packages that each build compiles.
const gatePackages = 60

// gated measures commands that execute many programs. It alternates between a plugin behind the exec gate and a plugin
// without a sandbox. The difference between the two therefore also includes the other costs of the sandbox.
func gated(ctx context.Context, bin string) error {
	goBinary, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	var sides [2]gateSide // the first side has the gate, and the second side has no sandbox
	for i, config := range []string{"plugin \"bash\" {}\n", "plugin \"bash\" {}\nsandbox {\n  enforce = \"off\"\n}\n"} {
		if sides[i], err = newGateSide(ctx, bin, config); err != nil {
			return err
		}
		defer sides[i].stop()
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	spawn := func(s *gateSide, _ int) error { return s.run("for i in {1..100}; do /bin/true; done") }
	if err := compareSides(out, "100 × /bin/true, warm", &sides, 3, 60, 1.25, spawn); err != nil {
		return err
	}
	build := func(s *gateSide, round int) error {
		if err := writePackages(s.dir, round); err != nil {
			return err
		}
		return s.run("GOCACHE=$PWD/cache GOPATH=$PWD/gopath GOENV=off GOPROXY=off GOTOOLCHAIN=local GOTELEMETRY=off GOFLAGS= " + goBinary + " build -o /dev/null .")
	}
	return compareSides(out, fmt.Sprintf("go build of %d packages", gatePackages), &sides, 1, 12, 1.05, build)
}

// compareSides measures a command alternately on both sides. It prints the ratios of the running times and of the
// processor times.
func compareSides(out *tabwriter.Writer, name string, sides *[2]gateSide, warmups, rounds int, most float64, command func(s *gateSide, round int) error) error {
	var times, work [2][]time.Duration
	for round := range warmups + rounds {
		for k := range sides {
			i := (k + round) % len(sides) // alternate the order of the two sides
			before, err := sides[i].work()
			if err != nil {
				return err
			}
			d, err := timed(func() error { return command(&sides[i], round) })
			if err != nil {
				return err
			}
			after, err := sides[i].work()
			if err != nil {
				return err
			}
			if round >= warmups {
				times[i], work[i] = append(times[i], d), append(work[i], after-before)
			}
		}
	}
	of := ratio(median(work[0]), median(work[1]))
	fmt.Fprintf(out, "%s\tgate %s\tno sandbox %s\tratio %.2f\tof minimums %.2f\tof processor time %.2f\tat most %.2f\t%s\n", name, millis(median(times[0])), millis(median(times[1])),
		ratio(median(times[0]), median(times[1])), ratio(slices.Min(times[0]), slices.Min(times[1])), of, most, verdict(of <= most))
	return out.Flush()
}

// gateSide is a host with its own workspace and configuration.
type gateSide struct {
	dir    string
	host   *hostProcess
	plugin int
}

func newGateSide(ctx context.Context, bin, config string) (s gateSide, err error) {
	if s.dir, err = sample(); err != nil {
		return s, err
	}
	path := filepath.Join(filepath.Dir(s.dir), "config.hcl")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return s, err
	}
	if s.host, err = startHost(ctx, bin, s.dir, "--config", path); err != nil {
		return s, err
	}
	if err = s.run("true"); err == nil {
		s.plugin, err = child(s.host.pid, "bash")
	}
	return s, err
}

func (s *gateSide) run(command string) error {
	reply, err := s.host.ask(command)
	if err == nil && !strings.Contains(reply, `"success":true`) {
		err = fmt.Errorf("%s: %.500s", command, reply)
	}
	return err
}

func (s *gateSide) stop() {
	s.host.stop()
	_ = os.RemoveAll(filepath.Dir(s.dir)) // ignore the error, because the directory is temporary
}

// clockTick is the unit of the times in /proc.
const clockTick = time.Second / 100

// work returns the processor time that the host, the plugin and the ended commands of the plugin have used together.
func (s *gateSide) work() (sum time.Duration, err error) {
	for _, pid := range []int{s.host.pid, s.plugin} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if pid == s.host.pid {
			fields = fields[:13] // count only the host's own time, because the plugin is counted separately
		}
		for _, f := range fields[11:min(15, len(fields))] {
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * clockTick
		}
	}
	return sum, nil
}

// writePackages writes a program with many packages. The content of the packages is new, so the build cache cannot
// contain them.
func writePackages(dir string, round int) error {
	main := "package main\n\nimport (\n"
	for i := range gatePackages {
		main += fmt.Sprintf("\t_ \"example.org/bench/p%d\"\n", i)
		at := filepath.Join(dir, fmt.Sprintf("p%d", i))
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "package p%d\n\nimport \"fmt\"\n\n", i)
		for k := range 60 {
			fmt.Fprintf(&text, "func F%d(a []int) string {\n\tn := %d\n\tfor i, v := range a {\n\t\tn += v * i\n\t}\n\treturn fmt.Sprint(n, a)\n}\n\n", k, round*1000+i)
		}
		if err := os.WriteFile(filepath.Join(at, "p.go"), []byte(text.String()), 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/bench\n\ngo 1.21\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(main+")\n\nfunc main() {}\n"), 0o600)
}
