package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// rolloutActions lists what a person can do with a rollout.
var rolloutActions = []string{"promote", "pause", "resume", "abort"}

func (s *server) rollout(w http.ResponseWriter, r *http.Request) {
	plugin, action := r.PathValue("plugin"), r.PathValue("action")
	if !slices.Contains(rolloutActions, action) {
		refuse(w, http.StatusNotFound, tool.NotFound,
			fmt.Sprintf("unknown action %.40q; use one of %v", action, rolloutActions))
		return
	}
	outcome(w, map[string]any{"plugin": plugin, "action": action}, s.host.Rollout(plugin, action, who(r)),
		http.StatusConflict, tool.Conflict)
}

// pin pins or approves a plugin, and applies the change at once.
func (s *server) pin(w http.ResponseWriter, r *http.Request) {
	var body struct {
		AcceptChanges bool `json:"accept_changes"`
	}
	if !decode(w, r, &body, `{"accept_changes": true}, or nothing`) {
		return
	}
	name, action := r.PathValue("plugin"), r.PathValue("action")
	var err error
	switch {
	case s.opts.Trust == nil:
		refuse(w, http.StatusNotFound, tool.NotFound, "this server cannot pin or approve plugins; run toolhost plugin pin or approve")
		return
	case action == "pin":
		err = s.opts.Trust.Pin(r.Context(), who(r), name, body.AcceptChanges)
	case action == "approve":
		err = s.opts.Trust.Approve(r.Context(), who(r), name)
	default:
		refuse(w, http.StatusNotFound, tool.NotFound, fmt.Sprintf("unknown action %.40q; use pin or approve", action))
		return
	}
	if err != nil {
		refuse(w, http.StatusConflict, tool.Conflict, err.Error())
		return
	}
	out, err := s.host.Renew(r.Context(), who(r))
	outcome(w, out, err, http.StatusConflict, tool.Conflict)
}

// branches lists the branches that the principal can see.
func (s *server) branches(w http.ResponseWriter, r *http.Request) {
	list, err := s.host.Branches(who(r))
	outcome(w, list, err, http.StatusInternalServerError, tool.Internal)
}

// supervised returns a handler that calls one of two handlers. If the path contains the id of a branch, it calls byID;
// otherwise it calls byName. An id contains "@". With the right to call, a principal can use its own branches by name.
// By id, a principal can also use the branches of the principals that it supervises. A change by id needs the right to
// administer.
func supervised(byName, byID http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		needs, handler := "call", byName
		switch id := strings.Contains(r.PathValue("name"), "@"); {
		case id && r.Method == http.MethodGet:
			needs, handler = "call log", byID
		case id:
			needs, handler = "administer", byID
		}
		requires(needs, handler)(w, r)
	}
}

func (s *server) branchWithID(w http.ResponseWriter, r *http.Request) {
	info, changes, diff, err := s.host.BranchWithID(who(r), r.PathValue("name"), branchDiff)
	if err != nil {
		refuseBranch(w, err)
		return
	}
	reply(w, http.StatusOK, struct {
		host.BranchInfo
		Changes []host.BranchChange `json:"changes"`
		Diff    string              `json:"diff"`
	}{info, changes, diff})
}

func (s *server) applyBranchWithID(w http.ResponseWriter, r *http.Request) {
	var body branchBody
	if !decode(w, r, &body, branchForm) {
		return
	}
	if len(body.Paths)+len(body.Ours)+len(body.Theirs) > 0 {
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, "a branch is applied as a whole here; send only \"stop_jobs\", or use the name of the branch and the query parameter workspace")
		return
	}
	out, err := s.host.ApplyBranchWithID(r.Context(), who(r), r.PathValue("name"), body.StopJobs)
	if err != nil {
		refuseBranch(w, err)
		return
	}
	reply(w, http.StatusOK, out)
}

func (s *server) discardBranchWithID(w http.ResponseWriter, r *http.Request) {
	if err := s.host.DiscardBranchWithID(r.Context(), who(r), r.PathValue("name")); err != nil {
		refuseBranch(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"discarded": r.PathValue("name")})
}
