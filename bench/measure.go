package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// call is an operation to measure.
type call func() error

// contest measures several calls alternately, so that a change in the speed of the machine affects all calls equally.
// It returns the latencies of each call.
func contest(rounds, perRound int, calls ...call) ([][]time.Duration, error) {
	out := make([][]time.Duration, len(calls))
	for _, c := range calls {
		for range 200 { // these calls are a warm-up
			if err := c(); err != nil {
				return nil, err
			}
		}
	}
	for range rounds {
		for i, c := range calls {
			for range perRound {
				began := time.Now()
				if err := c(); err != nil {
					return nil, err
				}
				out[i] = append(out[i], time.Since(began))
			}
		}
	}
	return out, nil
}

func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(float64(len(s))*q))]
}

func median(d []time.Duration) time.Duration { return quantile(d, 0.5) }

// rate returns the number of calls per second for the given number of concurrent callers.
func rate(callers int, during time.Duration, c call) (float64, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total int
	var failed error
	began := time.Now()
	for range callers {
		wg.Go(func() {
			n := 0
			var err error
			for time.Since(began) < during && err == nil {
				err = c()
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return float64(total) / time.Since(began).Seconds(), failed
}

// rates measures several calls alternately and returns the median rate of each call.
func rates(callers, rounds int, during time.Duration, calls ...call) ([]float64, error) {
	all := make([][]float64, len(calls))
	for range rounds {
		for i, c := range calls {
			r, err := rate(callers, during, c)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], r)
		}
	}
	out := make([]float64, len(calls))
	for i := range all {
		slices.Sort(all[i])
		out[i] = all[i][len(all[i])/2]
	}
	return out, nil
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Nanoseconds())/1e6) }

// verdict returns a word for the result of a comparison with a limit.
func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISSED"
}
