package exposition

import (
	"github.com/prometheus/client_golang/prometheus"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

var (
	breaker      = desc("plugin_breaker", "1 for the state of a plugin's breaker: closed, half-open or open, which suspends the plugin.", "plugin", "state")
	restarts     = desc("plugin_restarts_total", "Restarts of a plugin after its process ended unexpectedly.", "plugin")
	healthy      = desc("plugin_healthy", "1 if the running plugin answers that it is healthy, and 0 if it does not. Absent if it does not run.", "plugin")
	configInfo   = desc("config_info", "The SHA-256 of the configuration in use. It is empty for the built-in one.", "digest")
	reloads      = desc("config_reloads_total", "Reloads of configuration and plugins, by outcome: applied or refused.", "outcome")
	reloadTime   = desc("config_last_reload_timestamp_seconds", "Time of the last reload. Absent before the first one.")
	reloadOK     = desc("config_last_reload_successful", "1 if the last reload refused nothing. Absent before the first one.")
	refused      = desc("config_refused", "1 if the configuration on disk is not used.")
	stateErrors  = desc("state_errors_total", "Writes of the state that failed.")
	sessions     = desc("sessions", "Sessions that are stored.")
	busySessions = desc("sessions_busy", "Sessions with a call that runs or waits.")
	waiting      = desc("calls_waiting", "Calls that wait now, by reason: order or session_limit.", "reason")
	spillBytes   = desc("spill_bytes", "Size of the files with output that was too long to show.")
	stateBytes   = desc("state_bytes", "Size of the parts of the state directory.", "part")
	spillFiles   = desc("spill_files", "Number of the files with output that was too long to show.")
	alarms       = desc("alarm", "1 for each problem that an operator must know. The subject is a plugin, or empty.", "kind", "subject")

	signalDescs = []*prometheus.Desc{
		breaker, restarts, healthy, configInfo, reloads, reloadTime, reloadOK, refused, stateErrors, sessions,
		busySessions, waiting, spillBytes, spillFiles, stateBytes, alarms,
	}
)

// sender sends one metric.
type sender func(d *prometheus.Desc, v float64, labels ...string)

// senders returns functions that send counters and gauges.
func senders(out chan<- prometheus.Metric) (count, gauge sender) {
	send := func(kind prometheus.ValueType) sender {
		return func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
		}
	}
	return send(prometheus.CounterValue), send(prometheus.GaugeValue)
}

// one returns 1 for true and 0 for false.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collectSignals sends the metrics of the host itself, and its alarms.
func collectSignals(out chan<- prometheus.Metric, s host.Signals) {
	count, gauge := senders(out)
	gauge(configInfo, 1, s.ConfigDigest)
	count(reloads, float64(s.Reload.Applied), "applied")
	count(reloads, float64(s.Reload.Refused), "refused")
	if !s.Reload.At.IsZero() {
		gauge(reloadTime, float64(s.Reload.At.UnixMilli())/1000)
		gauge(reloadOK, one(s.Reload.OK))
	}
	count(stateErrors, float64(s.StateErrors))
	gauge(sessions, float64(s.Sessions))
	gauge(busySessions, float64(s.Busy))
	for _, reason := range []string{"order", "session_limit"} {
		gauge(waiting, float64(s.Waiting[reason]), reason)
	}
	gauge(spillBytes, float64(s.SpillBytes))
	gauge(spillFiles, float64(s.SpillFiles))
	for part, bytes := range s.StateBytes {
		gauge(stateBytes, float64(bytes), part)
	}
	for _, p := range s.Plugins {
		for _, state := range []string{"closed", "half-open", "open"} {
			gauge(breaker, one(p.Breaker == state), p.Name, state)
		}
		count(restarts, float64(p.Restarts), p.Name)
		if p.Health != "" {
			gauge(healthy, one(p.Health == tool.Healthy), p.Name)
		}
	}
	collectAlarms(gauge, s.Alarms)
}

// collectAlarms sends a metric for each alarm. It sends each pair of kind and subject only once, because a plugin can
// have several problems of one kind.
func collectAlarms(gauge sender, all []host.Alarm) {
	isRefused := false
	seen := make(map[[2]string]bool)
	for _, a := range all {
		isRefused = isRefused || a.Kind == host.AlarmConfig
		if key := [2]string{a.Kind, a.Subject}; !seen[key] {
			seen[key] = true
			gauge(alarms, 1, a.Kind, a.Subject)
		}
	}
	gauge(refused, one(isRefused))
}
