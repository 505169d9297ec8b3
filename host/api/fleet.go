package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// fleetActions lists what a person can do with a fleet over HTTP.
var fleetActions = []string{"drain", "undrain", "move", "promote", "abort"}

func refuseFleet(w http.ResponseWriter, err error) {
	if errors.Is(err, host.ErrNoFleet) {
		refuse(w, http.StatusNotFound, tool.NotFound, err.Error())
		return
	}
	refuse(w, http.StatusConflict, tool.Conflict, err.Error())
}

// fleet returns the nodes of the fleet, and the configuration on trial.
func (s *server) fleet(w http.ResponseWriter, r *http.Request) {
	st, err := s.host.OperateFleet(r.Context(), who(r), "status", json.RawMessage("{}"))
	if err != nil {
		refuseFleet(w, err)
		return
	}
	trial, err := s.host.OperateFleet(r.Context(), who(r), "rollout", json.RawMessage("{}"))
	if err != nil {
		trial = nil // the coordinators do not answer, which the problems in the status report
	}
	reply(w, http.StatusOK, map[string]any{"status": st, "rollout": trial})
}

// steerFleet carries out an action on the fleet. The fields of the body are the arguments of the command "toolhost
// fleet".
func (s *server) steerFleet(w http.ResponseWriter, r *http.Request) {
	action := r.PathValue("action")
	if !slices.Contains(fleetActions, action) {
		refuse(w, http.StatusNotFound, tool.NotFound,
			fmt.Sprintf("unknown action %.40q; use one of %v", action, fleetActions))
		return
	}
	var body struct {
		Node         string `json:"node,omitempty"`
		Session      string `json:"session,omitempty"`
		To           string `json:"to,omitempty"`
		AbandonLocal bool   `json:"abandon_local,omitempty"`
		Force        bool   `json:"force,omitempty"`
	}
	if !decode(w, r, &body, `{"node", "session", "to", "abandon_local", "force"}, of which the action needs some`) {
		return
	}
	arguments, err := json.Marshal(body)
	if err != nil {
		refuse(w, http.StatusInternalServerError, tool.Internal, err.Error())
		return
	}
	out, err := s.host.OperateFleet(r.Context(), who(r), action, arguments)
	if err != nil {
		refuseFleet(w, err)
		return
	}
	reply(w, http.StatusOK, out)
}
