package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"

	"toolhost.dev/bench/internal/bare"
)

// shellPause is the pause between two calls. It simulates the time that a model needs between two calls.
const shellPause = 100 * time.Millisecond

// shell compares a native command through a host in this process with a "bash -c" that this process starts itself. It
// also compares 1 GiB of output through the host with reading directly from a pipe.
func shell(ctx context.Context, bin string) error {
	h, dir, done, err := sampleHost(ctx, bin)
	if err != nil {
		return err
	}
	defer done()
	ours := func() error {
		if res := h.Run(ctx, host.Request{Command: "true"}, nil); !res.Success() {
			return res.Error
		}
		return nil
	}
	raw := func() error { return exec.CommandContext(ctx, "bash", "-c", "true").Run() }
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	row := func(name string, o, r time.Duration, most float64) {
		fmt.Fprintf(out, "%s\ttoolhost %s\tplain %s\tratio %.2f\tat most %.2f\t%s\n", name, millis(o), millis(r), ratio(o, r), most, verdict(ratio(o, r) <= most))
	}
	o, r, err := paused(60, ours, raw)
	if err != nil {
		return err
	}
	row("true, p50, with pauses", o, r, 0.7)
	if err := parts(ctx, bin, out); err != nil {
		return err
	}
	d, err := contest(20, 20, ours, raw)
	if err != nil {
		return err
	}
	row("true, p50, back to back", median(d[0]), median(d[1]), 1.5)
	return gigabyte(ctx, bin, dir, out, row)
}

// parts measures the two parts of a call that toolhost cannot influence. The first part is an empty gRPC call
// of a plugin. The second part is the end of a bash process that was started earlier and only has to continue and exit.
func parts(ctx context.Context, bin string, out io.Writer) error {
	echo, err := bare.Start(filepath.Join(bin, "bench", "bareplugin"))
	if err != nil {
		return err
	}
	defer echo.Stop()
	empty := func() error {
		_, err := echo.Unary(ctx, nil)
		return err
	}
	var calls, shells []time.Duration
	for range 60 {
		time.Sleep(shellPause)
		d, err := timed(empty)
		if err != nil {
			return err
		}
		calls = append(calls, d)
		waiting, err := startWaiting(ctx)
		if err != nil {
			return err
		}
		time.Sleep(shellPause)
		if d, err = timed(waiting.end); err != nil {
			return err
		}
		shells = append(shells, d)
	}
	fmt.Fprintf(out, "  beside it, an empty call of a bare plugin\t%s\t\t\t\t\n  beside it, the end of a bash that waited\t%s\t\t\t\t\n", millis(median(calls)), millis(median(shells)))
	return nil
}

func timed(c call) (time.Duration, error) {
	began := time.Now()
	err := c()
	return time.Since(began), err
}

// waitingShell is a bash process that waits until its input ends and then continues.
type waitingShell struct {
	cmd   *exec.Cmd
	input io.Closer
}

func startWaiting(ctx context.Context) (*waitingShell, error) {
	c := exec.CommandContext(ctx, "bash", "-c", "read -r; true")
	input, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, input.Close())
	}
	return &waitingShell{c, input}, nil
}

func (w *waitingShell) end() error { return errors.Join(w.input.Close(), w.cmd.Wait()) }

// paused measures two calls alternately, with a pause before each call. It returns the medians.
func paused(rounds int, a, b call) (time.Duration, time.Duration, error) {
	calls := []call{a, b}
	times := make([][]time.Duration, len(calls))
	for range rounds {
		for i, c := range calls {
			time.Sleep(shellPause)
			d, err := timed(c)
			if err != nil {
				return 0, 0, err
			}
			times[i] = append(times[i], d)
		}
	}
	return median(times[0]), median(times[1]), nil
}

const gib = 1 << 30

// gigabyte runs a command that prints 1 GiB, once through a host process and once with a reader that discards the
// output. It also measures the peak memory of the host and its plugin.
func gigabyte(ctx context.Context, bin, dir string, out io.Writer, row func(string, time.Duration, time.Duration, float64)) error {
	command := fmt.Sprintf("yes 'a line of output, as a build prints them' | head -c %d", gib)
	h, err := startHost(ctx, bin, dir)
	if err != nil {
		return err
	}
	defer h.stop()
	if _, err := h.ask("true"); err != nil {
		return err
	}
	var ours, plain []time.Duration
	for range 3 {
		began := time.Now()
		reply, err := h.ask(command)
		if err != nil || !strings.Contains(reply, `"success":true`) {
			return fmt.Errorf("the command with much output: %.300s: %w", reply, err)
		}
		ours = append(ours, time.Since(began))
		began = time.Now()
		if err := drain(ctx, command); err != nil {
			return err
		}
		plain = append(plain, time.Since(began))
	}
	row("1 GiB of output", median(ours), median(plain), 1.5)
	plugin, err := child(h.pid, "bash")
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		pid  int
	}{{"host", h.pid}, {"plugin", plugin}} {
		kb, err := memory(p.pid, "VmHWM:")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "1 GiB of output, most memory of the %s\t%.1f MB\t\t\tunder 64 MB\t%s\n", p.name, float64(kb)/1024, verdict(kb < 64<<10))
	}
	return nil
}

// drain reads and discards a command's output.
func drain(ctx context.Context, command string) error {
	c := exec.CommandContext(ctx, "bash", "-c", command) //nolint:gosec // the command above
	pipe, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	total := 0
	for {
		n, err := pipe.Read(buf)
		total += n
		if err != nil {
			break
		}
	}
	if err := c.Wait(); err != nil || total != gib {
		return fmt.Errorf("%d bytes were read: %w", total, err)
	}
	return nil
}

// child returns the id of the child process of parent that runs a program with the given name.
func child(parent int, name string) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue
		}
		if s := string(b); strings.HasPrefix(s, "Name:\t"+name+"\n") && strings.Contains(s, fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("process %d has no child %s", parent, name)
}
