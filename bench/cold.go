package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cold compares a whole run from nothing with that of a bare plugin.
func cold(ctx context.Context, bin string) error {
	dir, err := sample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	toolhost := func() error {
		c := exec.CommandContext(ctx, filepath.Join(bin, "toolhost"), "--workspace", dir, "--state", filepath.Join(dir, ".state"), "run", "read sample.txt") //nolint:gosec // built here
		out, err := c.Output()
		if err == nil && len(out) < fileSize-1 {
			err = fmt.Errorf("toolhost gives %d bytes", len(out))
		}
		return err
	}
	bare := func() error {
		return exec.CommandContext(ctx, filepath.Join(bin, "bench", "barehost"), filepath.Join(bin, "bench", "bareplugin")).Run() //nolint:gosec // built here
	}
	var ours, theirs []time.Duration
	for i := range 33 {
		for j, c := range []call{toolhost, bare} {
			began := time.Now()
			if err := c(); err != nil {
				return err
			}
			if i < 3 { // warm: the descriptions are known from then on
				continue
			}
			if j == 0 {
				ours = append(ours, time.Since(began))
			} else {
				theirs = append(theirs, time.Since(began))
			}
		}
	}
	o, t := median(ours), median(theirs)
	fmt.Printf("toolhost run 'read FILE': median %s (at most 60 ms: %s); a bare plugin's start and call: %s; ratio %.2f (at most 3.00: %s)\n",
		millis(o), verdict(o <= 60*time.Millisecond), millis(t), ratio(o, t), verdict(ratio(o, t) <= 3))
	return nil
}

// hostRSS runs a host with all its plugins and reads its memory.
func hostRSS(ctx context.Context, out io.Writer, bin, dir string, plugins int) error {
	c := exec.CommandContext(ctx, filepath.Join(bin, "toolhost"), "--workspace", dir, "--state", filepath.Join(dir, ".state"), "batch") //nolint:gosec // built here
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	lines, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer c.Wait()   //nolint:errcheck // only measured
	defer in.Close() //nolint:errcheck // ends it
	commands := []string{"read sample.txt", "grep fox", "edit sample.txt --old_string nothing-like-it --new_string x", "true"}
	replies := bufio.NewScanner(lines)
	replies.Buffer(nil, 1<<20)
	for round := range 50 {
		for _, command := range commands {
			b, err := json.Marshal(map[string]any{"id": round, "command": command})
			if err != nil {
				return err
			}
			if _, err := in.Write(append(b, '\n')); err != nil {
				return err
			}
			if !replies.Scan() {
				return fmt.Errorf("the host ended: %w", replies.Err())
			}
		}
	}
	kb, err := memory(c.Process.Pid, "VmRSS:")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "host memory (RSS), %d plugins running\t%.1f MB\t\t\tunder 40 MB\t%s\n", plugins, float64(kb)/1024, verdict(kb < 40<<10))
	return nil
}

// memory gives a line of a process's status, in kB.
func memory(pid int, name string) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
		}
	}
	return 0, fmt.Errorf("no %s for %d", name, pid)
}
