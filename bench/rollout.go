package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

const (
	shadowBursts = 30
	shadowReads  = 150
	// shadowPause is the time between two reads, as an agent makes it. Shadow calls run in it.
	shadowPause = 2 * time.Millisecond
)

// rollouts measures what shadow calls cost the calls that are served. Two hosts take turns in short bursts: one without a
// rollout, and one in the shadow of a rollout.
func rollouts(ctx context.Context, bin string) error {
	plain, err := newSwapLoad(ctx, bin)
	if err != nil {
		return err
	}
	defer plain.close()
	shadowed, err := newSwapLoad(ctx, bin)
	if err != nil {
		return err
	}
	defer shadowed.close()
	config, err := os.ReadFile(filepath.Join(shadowed.dir, "toolhost.hcl"))
	if err != nil {
		return err
	}
	block := "bundled = false\nplugin \"read\" {\n  rollout {\n    shadow = 20\n    steps = []\n    pause = \"1h\"\n    abort {\n      p95_ratio = 1000\n    }\n  }\n"
	if err := os.WriteFile(filepath.Join(shadowed.dir, "toolhost.hcl"), append([]byte(block), config[len("bundled = false\nplugin \"read\" {\n"):]...), 0o600); err != nil {
		return err
	}
	if err := shadowed.restart(ctx, bin); err != nil {
		return err
	}
	burst := func(l *swapLoad, m *measured) {
		for range shadowReads {
			l.one(ctx, m, 1, 0)
			time.Sleep(shadowPause)
		}
	}
	var without, off, in measured
	burst(plain, new(measured))
	burst(shadowed, new(measured))
	for range shadowBursts {
		burst(plain, &without)
		burst(shadowed, &off)
	}
	if err := shadowed.swap(ctx, 1); err != nil {
		return err
	}
	without2 := measured{}
	for range shadowBursts {
		burst(plain, &without2)
		burst(shadowed, &in)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(name string, a, b measured, limit float64) {
		r := ratio(quantile(a.took, 0.5), quantile(b.took, 0.5))
		fmt.Fprintf(out, "%s\tp50 %s\twithout %s\tratio %.3f\tat most %.2f\t%s\n", name, millis(quantile(a.took, 0.5)), millis(quantile(b.took, 0.5)), r, limit, verdict(r <= limit && a.failed == 0 && a.lost == 0))
	}
	row("rollout block, no rollout", off, without, 1.02)
	row("shadow = 20", in, without2, 1.05)
	for _, r := range shadowed.host.Status().Rollouts {
		fmt.Fprintf(out, "compared %d, differ %d\t\t\t\t\t\n", r.Compared, r.Differs)
	}
	return out.Flush()
}
