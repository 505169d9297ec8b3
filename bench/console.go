package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"toolhost.dev/host/api"
	"toolhost.dev/host/console"
)

const (
	watchedRate    = 5000 // calls a second
	watchedCallers = 8
	watchedBurst   = 500 * time.Millisecond
	watchedBursts  = 24 // number of bursts with a viewer, and also of bursts without one
)

// consoles measures how much slower calls are while a person watches the page "Now" of the web console. A host serves
// bursts of calls at a fixed rate. Bursts with a viewer alternate with bursts without a viewer.
func consoles(ctx context.Context, bin string) error {
	l, err := newSwapLoad(ctx, bin)
	if err != nil {
		return err
	}
	defer l.close()
	pages := console.New(console.Options{Authenticate: l.host.Directory().Authenticate})
	server := httptest.NewServer(api.Handler(l.host, api.Options{Console: pages.Handler}))
	defer server.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar}
	res, err := browser.Get(server.URL + pages.Link())
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("the login to the console failed with %s: %w", res.Status, err)
	}
	burst := func(into *measured) (perSecond float64) {
		var all sync.WaitGroup
		each := make([]measured, watchedCallers)
		began := time.Now()
		for i := range each {
			all.Go(func() {
				pause := watchedCallers * time.Second / watchedRate
				for next := began.Add(time.Duration(i) * time.Second / watchedRate); time.Since(began) < watchedBurst; next = next.Add(pause) {
					time.Sleep(time.Until(next))
					l.one(ctx, &each[i], 8*i+1, 0) // only reads
				}
			})
		}
		all.Wait()
		calls := 0
		for _, m := range each {
			into.took, into.failed, into.lost = append(into.took, m.took...), into.failed+m.failed, into.lost+m.lost
			calls += len(m.took)
		}
		return float64(calls) / time.Since(began).Seconds()
	}
	var with, without measured
	var rates []float64
	updates := 0
	burst(new(measured))
	for range watchedBursts {
		rates = append(rates, burst(&without))
		seen, err := watch(ctx, browser, server.URL, func() { rates = append(rates, burst(&with)) })
		if err != nil {
			return err
		}
		updates += seen
	}
	total := 0.0
	for _, r := range rates {
		total += r
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	r := ratio(quantile(with.took, 0.5), quantile(without.took, 0.5))
	fmt.Fprintf(out, "console watches\tp50 %s\twithout %s\tratio %.3f\tat most %.2f\t%s\n", millis(quantile(with.took, 0.5)), millis(quantile(without.took, 0.5)), r, 1.03,
		verdict(r <= 1.03 && with.failed == 0 && with.lost == 0))
	fmt.Fprintf(out, "p95\t%s\t%s\t\t\t\n", millis(quantile(with.took, 0.95)), millis(quantile(without.took, 0.95)))
	fmt.Fprintf(out, "%.0f calls a second on average, %d calls of each kind, %.1f updates of the page a second\t\t\t\t\t\n", total/float64(len(rates)), len(with.took), float64(updates)/(watchedBurst.Seconds()*watchedBursts))
	return out.Flush()
}

// watch receives the event stream of the page "Now" while load runs, and returns the number of updates.
func watch(ctx context.Context, browser *http.Client, url string, load func()) (updates int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/console/events?page=now", nil)
	if err != nil {
		return 0, err
	}
	res, err := browser.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the event stream answered %s", res.Status)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewReaderSize(res.Body, 1<<20); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "event: live") {
				updates++
			}
		}
	})
	load()
	cancel()
	reading.Wait()
	return updates, nil
}
