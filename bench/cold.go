package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// cold compares a complete run of toolhost after a cold start with a run of a bare plugin.
func cold(ctx context.Context, bin string) error {
	dir, err := sample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(dir)) //nolint:errcheck // a temporary directory
	toolhost := func() error {
		c := exec.CommandContext(ctx, filepath.Join(bin, "toolhost"), "--workspace", dir, "--state", stateOf(dir), "run", "read sample.txt") //nolint:gosec // built here
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
			if i < 3 { // the first runs are a warm-up; they also save the descriptions of plugins
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

// hostRSS starts a host with all its plugins and measures its memory.
func hostRSS(ctx context.Context, out io.Writer, bin, dir string, plugins int) error {
	p, err := startHost(ctx, bin, dir)
	if err != nil {
		return err
	}
	defer p.stop()
	for range 50 {
		for _, command := range []string{"read sample.txt", "grep fox", "edit sample.txt --old_string nothing-like-it --new_string x", "true"} {
			if _, err := p.ask(command); err != nil {
				return err
			}
		}
	}
	kb, err := memory(p.pid, "VmRSS:")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "host memory (RSS), %d plugins running\t%.1f MB\t\t\tunder 40 MB\t%s\n", plugins, float64(kb)/1024, verdict(kb < 40<<10))
	return nil
}
