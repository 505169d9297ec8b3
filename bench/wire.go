package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"toolhost.dev/bench/internal/bare"
)

// wire compares three ways of sending calls: one unary RPC per call, one stream per call, and one stream for all calls.
func wire(ctx context.Context, bin string) error {
	c, err := bare.Start(filepath.Join(bin, "bench", "bareplugin"))
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := c.Check(ctx); err != nil {
		return err
	}
	ways := []func(context.Context, []byte) ([]byte, error){c.Unary, c.Stream, c.Frames}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "payload\tmeasure\tunary\tstream a call\tone stream for all\tstream/unary\tall/unary")
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		payload := bytes.Repeat([]byte("x"), size)
		calls := make([]call, len(ways))
		for i, way := range ways {
			calls[i] = func() error {
				got, err := way(ctx, payload)
				if err == nil && len(got) != size {
					err = fmt.Errorf("%d bytes came back for %d", len(got), size)
				}
				return err
			}
		}
		per := 200
		if size >= 1<<20 {
			per = 10
		}
		d, err := contest(20, per, calls...)
		if err != nil {
			return err
		}
		u, s, f := median(d[0]), median(d[1]), median(d[2])
		fmt.Fprintf(out, "%d B\tp50, 1 caller\t%s\t%s\t%s\t%.2f\t%.2f\n", size, micros(u), micros(s), micros(f), ratio(s, u), ratio(f, u))
		r, err := rates(64, 3, 700*time.Millisecond, calls...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d B\tcalls/s, 64 callers\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\n", size, r[0], r[1], r[2], r[1]/r[0], r[2]/r[0])
	}
	return out.Flush()
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
