package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	shadowRounds = 600
	// shadowReads is the number of reads of one host in a round. During these reads, the host makes at least one shadow
	// call.
	shadowReads = 8
	// shadowParts is the number of parts into which a measurement is divided. The ratios of the parts show how much the
	// measurement varies.
	shadowParts = 10
	// shadowPause is the pause between two reads. It simulates the pauses between the calls of an agent. Shadow calls
	// run during these pauses.
	shadowPause = 2 * time.Millisecond
	// shadowCrowds is the number of measurements of each host with many concurrent callers. Each measurement lasts for
	// shadowCrowd. The callers make no pauses between calls.
	shadowCrowds  = 60
	shadowCrowd   = 100 * time.Millisecond
	shadowCallers = 16
)

// rollouts measures how much shadow calls slow down the calls that are served. It reads from four hosts in turn, a few
// times each. Two hosts have no rollout block, so their ratio is the noise of the measurement. One host has a rollout
// block but no new version. The last host runs a new version with shadow calls.
func rollouts(ctx context.Context, bin string) error {
	var loads []*swapLoad
	for _, block := range []bool{false, false, true, true} {
		l, err := newRolloutLoad(ctx, bin, block)
		if err != nil {
			return err
		}
		defer l.close()
		loads = append(loads, l)
	}
	for _, l := range loads {
		for range 200 {
			l.one(ctx, new(measured), 1, 0)
		}
	}
	shadowed := loads[len(loads)-1]
	if err := shadowed.swap(ctx, 1); err != nil {
		return err
	}
	one := make([]measured, len(loads))
	for round := range shadowRounds {
		for i := range loads {
			i = (i + round) % len(loads) // change the order, so that each host is measured after every other host
			loads[i].one(ctx, new(measured), 1, 0)
			for range shadowReads {
				time.Sleep(shadowPause)
				loads[i].one(ctx, &one[i], 1, 0)
			}
			time.Sleep(shadowPause)
		}
	}
	many := make([]measured, len(loads))
	for round := range shadowCrowds {
		for i := range loads {
			i = (i + round) % len(loads)
			loads[i].reads(ctx, &many[i])
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, part := range []struct {
		callers string
		all     []measured
	}{{"1 caller", one}, {fmt.Sprint(shadowCallers, " callers"), many}} {
		row := func(name string, m measured, limit float64) {
			r, deviation := ratioInParts(m.took, part.all[0].took, shadowParts)
			fmt.Fprintf(out, "%s, %s\tp50 %s\twithout %s\tratio %.3f ± %.3f\t", part.callers, name, micros(median(m.took)), micros(median(part.all[0].took)), r, deviation)
			if limit > 0 {
				fmt.Fprintf(out, "at most %.2f\t%s", limit, verdict(r <= limit && m.failed == 0 && m.lost == 0))
			}
			fmt.Fprintln(out)
		}
		row("same again (the noise)", part.all[1], 0)
		row("rollout block, no rollout", part.all[2], 1.02)
		row("shadow = 20", part.all[3], 1.05)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, r := range shadowed.host.Status().Rollouts {
		fmt.Printf("compared %d, differ %d, left out %d\n", r.Compared, r.Differs, r.Dropped)
	}
	return nil
}

// reads makes reads with several concurrent callers for a short time.
func (l *swapLoad) reads(ctx context.Context, m *measured) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(shadowCrowd)
	for caller := range shadowCallers {
		wg.Go(func() {
			var own measured
			for time.Now().Before(end) {
				l.one(ctx, &own, 8*caller+1, 0) // such a caller only reads
			}
			mu.Lock()
			defer mu.Unlock()
			m.took = append(m.took, own.took...)
			m.failed, m.lost = m.failed+own.failed, m.lost+own.lost
		})
	}
	wg.Wait()
}

// newRolloutLoad returns a load. If block is true, the configuration of the plugin "read" contains a rollout block.
func newRolloutLoad(ctx context.Context, bin string, block bool) (*swapLoad, error) {
	l, err := newSwapLoad(ctx, bin)
	if err != nil || !block {
		return l, err
	}
	const before = "bundled = false\nplugin \"read\" {\n"
	path := filepath.Join(l.dir, "toolhost.hcl")
	config, err := os.ReadFile(path)
	if err == nil {
		config = append([]byte(before+"  rollout {\n    shadow = 20\n    steps = []\n    pause = \"1h\"\n    abort {\n      p95_ratio = 1000\n    }\n  }\n"), config[len(before):]...)
		err = os.WriteFile(path, config, 0o600)
	}
	if err == nil {
		err = l.restart(ctx, bin)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// ratioInParts returns the ratio of the medians of two series that were measured alternately. It also returns the
// standard error of this ratio. To estimate the error, it divides the series into parts and computes the ratio of each
// part.
func ratioInParts(a, b []time.Duration, parts int) (r, deviation float64) {
	r = ratio(median(a), median(b))
	var squares float64
	for i := range parts {
		part := func(d []time.Duration) time.Duration { return median(d[i*len(d)/parts : (i+1)*len(d)/parts]) }
		off := ratio(part(a), part(b)) - r
		squares += off * off
	}
	return r, math.Sqrt(squares / float64(parts*(parts-1)))
}
