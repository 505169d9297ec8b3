package exposition

import (
	"github.com/prometheus/client_golang/prometheus"

	"toolhost.dev/host"
)

var (
	fleetForwarded = desc("fleet_forwarded_total", "Calls that this node sent to another one.")
	fleetForward   = desc("fleet_forward_seconds", "How long calls took that this node sent to another one.")
	fleetNotOwner  = desc("fleet_not_owner_total", "Calls that other nodes sent here although another node has the session.")
	fleetTakeovers = desc("fleet_takeovers_total", "Sessions that this node took because their node had ended.")
	fleetLease     = desc("fleet_lease_remaining_seconds", "Time until the lease of this node ends.")
	fleetUnknown   = desc("fleet_outcome_unknown_total", "Calls whose outcome is not known, because a node was lost while they ran.")
	fleetJournal   = desc("fleet_journal_append_seconds", "How long the coordinators took to confirm a record of the journal.")
	fleetSessions  = desc("fleet_sessions", "Sessions of the fleet that this node has open.")
	fleetNodes     = desc("fleet_nodes", "Nodes of the fleet.", "state")
)

var fleetDescs = []*prometheus.Desc{fleetForwarded, fleetForward, fleetNotOwner, fleetTakeovers, fleetLease,
	fleetUnknown, fleetJournal, fleetSessions, fleetNodes}

// collectFleet sends the metrics of a fleet.
func collectFleet(out chan<- prometheus.Metric, s host.FleetStats) {
	count, gauge := senders(out)
	count(fleetForwarded, float64(s.Forwarded))
	count(fleetNotOwner, float64(s.NotOwner))
	count(fleetTakeovers, float64(s.Takeovers))
	count(fleetUnknown, float64(s.Unknown))
	gauge(fleetLease, s.Lease)
	gauge(fleetSessions, float64(s.Sessions))
	out <- prometheus.MustNewConstHistogram(fleetForward, s.Forward.Count, s.Forward.Sum/1000, s.Forward.Buckets)
	out <- prometheus.MustNewConstHistogram(fleetJournal, s.Journal.Count, s.Journal.Sum/1000, s.Journal.Buckets)
	for state, n := range s.Nodes {
		gauge(fleetNodes, float64(n), state)
	}
}
