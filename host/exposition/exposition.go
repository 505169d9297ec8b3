// Package exposition exports the metrics of a host to Prometheus. [Handler] serves the metrics over HTTP. [Collector]
// adds them to the registry of another program.
package exposition

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"toolhost.dev/host"
)

// Handler returns an HTTP handler for the metrics of [Collector] and the metrics of the host's own process. The format
// is Prometheus text, or OpenMetrics on request. The handler uses its own registry. It does not authenticate clients.
func Handler(h *host.Host) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(Collector(h), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// maxScrapes is the maximum number of concurrent scrapes. It is limited, because each scrape reads the state of
// processes.
const maxScrapes = 4

// Collector returns a collector of a host's metrics. The labels are tool, plugin and outcome. The outcome of a call is
// "success" or the kind of its error.
func Collector(h *host.Host) prometheus.Collector { return collector{h} }

type collector struct{ host *host.Host }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("toolhost_"+name, help, labels, nil)
}

var (
	info       = desc("info", "The host's version.", "version")
	calls      = desc("tool_calls_total", "Calls that have ended, also those that were refused, by outcome: success, or the kind of error.", "tool", "outcome")
	retries    = desc("tool_retries_total", "Calls that were tried again because their plugin ended under them.", "tool")
	waited     = desc("tool_calls_waited_total", "Calls that could not run at once because others did.", "tool")
	running    = desc("tool_calls_running", "Calls that run now.", "tool")
	runningMax = desc("tool_calls_running_max", "The most calls that ever ran at once.", "tool")
	execution  = desc("tool_execution_seconds", "How long calls ran.", "tool")
	queue      = desc("tool_queue_seconds", "How long calls waited before they ran, or gave that up.", "tool")

	starts       = desc("plugin_starts_total", "Processes of a plugin that came to serve.", "plugin")
	failedStarts = desc("plugin_failed_starts_total", "Processes of a plugin that could not be started.", "plugin")
	crashes      = desc("plugin_crashes_total", "Processes of a plugin that ended by themselves.", "plugin")
	processes    = desc("plugin_processes", "Processes of a plugin that run now.", "plugin")
	cpu          = desc("plugin_cpu_seconds_total", "CPU time of a plugin's processes and what they started.", "plugin")
	memory       = desc("plugin_resident_memory_bytes", "Memory that a plugin's processes and what they started have now.", "plugin")
	read         = desc("plugin_read_bytes_total", "Bytes that a plugin's processes and what they started read from storage.", "plugin")
	rolloutShare = desc("rollout_share", "Share of the sessions that a new version of a plugin serves: from 0 to 1.", "plugin", "state")
	rolloutCalls = desc("rollout_calls", "Calls of the old and of the new version in the current step of a rollout, by outcome.", "plugin", "version", "outcome")
	rolloutDiffs = desc("rollout_differences", "Compared calls with another result in the current step of a rollout.", "plugin")

	quotaRunning = desc("quota_calls_running", "Calls of a field or a principal with a quota that run now.", "subject")
	quotaCalls   = desc("quota_calls_total", "Calls of a field or a principal that its quota permitted.", "subject")
	quotaRefused = desc("quota_refused_total", "Calls of a field or a principal that its quota refused, by limit.", "subject", "limit")
	quotaOpen    = desc("quota_breaker_open", "Whether the breaker of a field or a principal refuses calls: 1 or 0.", "subject")

	written = desc("plugin_written_bytes_total", "Bytes that a plugin's processes and what they started wrote to storage.", "plugin")
)

// Describe implements [prometheus.Collector].
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		info, calls, retries, waited, running, runningMax, execution, queue, starts, failedStarts, crashes, processes,
		cpu, memory, read, written, rolloutShare, rolloutCalls, rolloutDiffs, quotaRunning, quotaCalls,
		quotaRefused, quotaOpen,
	} {
		out <- d
	}
	for _, d := range slices.Concat(signalDescs, fleetDescs) {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	count, gauge := senders(out)
	collectSignals(out, c.host.Signals())
	if f, ok := c.host.FleetStats(); ok {
		collectFleet(out, f)
	}
	times := func(d *prometheus.Desc, t host.Times, labels ...string) {
		out <- prometheus.MustNewConstHistogram(d, t.Count, t.Sum/1000, t.Buckets, labels...)
	}
	gauge(info, 1, host.Version)
	s := c.host.Stats()
	for _, t := range s.Tools {
		count(calls, float64(t.Successes), t.Name, "success")
		for kind, n := range t.Errors {
			count(calls, float64(n), t.Name, string(kind))
		}
		count(retries, float64(t.Retries), t.Name)
		count(waited, float64(t.Waited), t.Name)
		gauge(running, float64(t.Running), t.Name)
		gauge(runningMax, float64(t.RunningMax), t.Name)
		times(execution, t.Execution, t.Name)
		times(queue, t.Queue, t.Name)
	}
	collectLimits(out, s)
	for _, p := range s.Plugins {
		count(starts, float64(p.Starts), p.Name)
		count(failedStarts, float64(p.FailedStarts), p.Name)
		count(crashes, float64(p.Crashes), p.Name)
		gauge(processes, float64(len(p.PIDs)), p.Name)
		u := p.Usage
		if u == nil {
			continue
		}
		count(cpu, u.CPU, p.Name)
		gauge(memory, float64(u.Memory), p.Name)
		if u.Read != nil {
			count(read, float64(*u.Read), p.Name)
		}
		if u.Written != nil {
			count(written, float64(*u.Written), p.Name)
		}
	}
}

// collectLimits sends the metrics of rollouts and quotas.
func collectLimits(out chan<- prometheus.Metric, s host.Stats) {
	count, gauge := senders(out)
	for _, r := range s.Rollouts {
		gauge(rolloutShare, r.Share/100, r.Plugin, string(r.State))
		gauge(rolloutDiffs, float64(r.Differs), r.Plugin)
		for _, v := range []struct {
			name string
			host.RolloutFigures
		}{{"old", r.Old}, {"new", r.New}} {
			gauge(rolloutCalls, float64(v.Calls-v.Failed), r.Plugin, v.name, "success")
			gauge(rolloutCalls, float64(v.Failed), r.Plugin, v.name, "failed")
		}
	}
	for _, q := range s.Quotas {
		subject := string(q.Subject)
		gauge(quotaRunning, float64(q.Running), subject)
		count(quotaCalls, float64(q.Calls), subject)
		for limit, n := range q.Refused {
			count(quotaRefused, float64(n), subject, limit)
		}
		if q.Breaker == "" {
			continue
		}
		open := 0.0
		if q.Breaker == "open" {
			open = 1
		}
		gauge(quotaOpen, open, subject)
	}
}
