package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"toolhost.dev/host"
)

// fleetData is the state of a fleet in the format of the HTTP interface.
type fleetData struct {
	Status  host.FleetStatus `json:"status"`
	Rollout *host.FleetTrial `json:"rollout"`
}

func loadFleet(ctx context.Context, c *Console, s *session, v *view) error {
	var data fleetData
	if err := c.get(ctx, s.principal, "/v1/fleet", &data); err != nil {
		return err
	}
	v.Data = data
	return nil
}

// drainTime is the maximum time for which a request waits for the end of a drain. A longer drain continues after the
// answer.
const drainTime = 2 * time.Second

// steerFleet drains or undrains a node, or ends the trial of a configuration.
func (c *Console) steerFleet(r *http.Request, s *session) (string, error) {
	done := make(chan error, 1)
	action, node := r.PathValue("action"), r.PostFormValue("node")
	ctx := context.WithoutCancel(r.Context())
	go func() {
		err := c.send(ctx, s.principal, http.MethodPost, "/v1/fleet/"+url.PathEscape(action),
			map[string]string{"node": node}, nil)
		if err != nil {
			c.opts.Log.Warn("an action on the fleet failed", "action", action, "node", node, "by",
				s.principal.Name, "why", err)
		}
		done <- err
	}()
	if action != "drain" {
		return "/fleet", <-done
	}
	select {
	case err := <-done:
		return "/fleet", err
	case <-time.After(drainTime): // the drain continues, and the page shows the number of remaining sessions
		return "/fleet", nil
	}
}
