package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// confined compares plugins under each sandbox backend. It measures the start of a plugin together with its first call.
// Each measurement is a complete run of toolhost.
func confined(ctx context.Context, bin string) error {
	dir, err := sample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(dir)) //nolint:errcheck // a temporary directory
	backends, err := sandboxBackends(ctx, bin)
	if err != nil {
		return err
	}
	configs := make([]string, len(backends))
	for i, b := range backends {
		configs[i] = filepath.Join(dir, b+".hcl")
		// With "require", the run fails if the backend is not available, so that no other backend is measured instead.
		enforce := map[bool]string{true: "off", false: "require"}[b == "none"]
		text := fmt.Sprintf("bundled = false\nsandbox {\n  backend = %q\n  enforce = %q\n}\nplugin \"read\" {}\nplugin \"bash\" {}\n", b, enforce)
		if err := os.WriteFile(configs[i], []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, command := range []string{"read sample.txt --limit 1", "tool:bash --command :"} {
		times := make([][]time.Duration, len(backends))
		for round := range 43 {
			for i, config := range configs {
				began := time.Now()
				c := exec.CommandContext(ctx, filepath.Join(bin, "toolhost"), "--config", config, "--workspace", dir, "--state", stateOf(dir), "run", "--", command) //nolint:gosec // built here
				if out, err := c.CombinedOutput(); err != nil {
					return fmt.Errorf("%s with %s: %w\n%s", command, backends[i], err, out)
				}
				if round >= 3 { // the first rounds are a warm-up; they also save the descriptions of plugins
					times[i] = append(times[i], time.Since(began))
				}
			}
		}
		none := median(times[0])
		fmt.Printf("toolhost run %-28q none %s", command, millis(none))
		for i := 1; i < len(backends); i++ {
			over := median(times[i]) - none
			fmt.Printf("; %s %s over (at most 15 ms: %s)", backends[i], millis(over), verdict(over <= 15*time.Millisecond))
		}
		fmt.Println()
	}
	return nil
}

// sandboxBackends returns the sandbox backends that this machine supports, the weakest first. The list comes from
// the command "toolhost doctor".
func sandboxBackends(ctx context.Context, bin string) ([]string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "toolhost"), "doctor", "--json").Output() //nolint:gosec // built here
	if err != nil {
		return nil, fmt.Errorf("toolhost doctor: %w", err)
	}
	var d struct {
		Backends []struct {
			Name     string `json:"name"`
			Unusable string `json:"unusable"`
		} `json:"backends"`
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return nil, fmt.Errorf("toolhost doctor: %w", err)
	}
	var names []string
	for _, b := range slices.Backward(d.Backends) {
		if b.Unusable == "" {
			names = append(names, b.Name)
			continue
		}
		fmt.Printf("LEFT OUT: %s cannot be used here: %s\n", b.Name, b.Unusable)
	}
	return names, nil
}
