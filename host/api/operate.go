package api

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// who returns the principal of a request. Unlike [Principal], it also returns a principal for the local
// user.
func who(r *http.Request) *host.Principal {
	if p := Principal(r.Context()); p != nil {
		return p
	}
	return host.LocalUser()
}

// number returns a parameter of the query, which must be a number from 1 to most. If the parameter is
// missing, it returns the default def.
func number(r *http.Request, name string, def, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s=%.20q: use a number from 1 to %d", name, text, most)
	}
	return n, nil
}

// calls lists the calls that run or wait.
func (s *server) calls(w http.ResponseWriter, r *http.Request) {
	limit, err := number(r, "limit", 200, 1000)
	if err != nil {
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, err.Error())
		return
	}
	calls, total := s.host.ActiveCalls(who(r), limit)
	reply(w, http.StatusOK, map[string]any{"calls": calls, "total": total})
}

func (s *server) cancelCall(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || !s.host.CancelCall(id, who(r)) {
		refuse(w, http.StatusNotFound, tool.NotFound, fmt.Sprintf("no call with the id %.40q runs; GET /v1/calls lists the calls", r.PathValue("id")))
		return
	}
	reply(w, http.StatusOK, map[string]any{"id": id, "canceled": true})
}

// reload applies changes of the configuration and of plugins.
func (s *server) reload(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Plugins           []string `json:"plugins"`
		AcceptChanges     bool     `json:"accept_changes"`
		ApprovePrivileges bool     `json:"approve_privileges"`
	}
	if !decode(w, r, &body, `{"plugins": […], "accept_changes": true, "approve_privileges": true}, or nothing`) {
		return
	}
	out, err := s.host.Reload(r.Context(), host.ReloadOptions{
		Plugins: body.Plugins, AcceptChanges: body.AcceptChanges, ApprovePrivileges: body.ApprovePrivileges,
		By: who(r).Name,
	})
	outcome(w, out, err, http.StatusConflict, tool.InvalidArguments)
}

func (s *server) plan(w http.ResponseWriter, r *http.Request) {
	plan, err := s.host.Plan(r.Context())
	outcome(w, plan, err, http.StatusConflict, tool.Unavailable)
}

func (s *server) configHistory(w http.ResponseWriter, _ *http.Request) {
	h, err := s.host.ConfigHistory()
	outcome(w, h, err, http.StatusNotFound, tool.NotFound)
}

func (s *server) rollback(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ID int64 `json:"id"`
	}
	if !decode(w, r, &body, `{"id": the number of an applied configuration}`) {
		return
	}
	out, err := s.host.Rollback(r.Context(), body.ID, who(r))
	outcome(w, out, err, http.StatusConflict, tool.Conflict)
}

// setEnabled enables or disables a tool, or all tools of a plugin.
func (s *server) setEnabled(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		outcome(w, map[string]any{"name": name, "enabled": on}, s.host.SetEnabled(name, on, who(r)),
			http.StatusNotFound, tool.NotFound)
	}
}

func (s *server) doctor(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Doctor == nil {
		refuse(w, http.StatusNotFound, tool.NotFound, "this server does not diagnose its machine; run toolhost doctor")
		return
	}
	d, err := s.opts.Doctor()
	outcome(w, d, err, http.StatusInternalServerError, tool.Internal)
}

// logQuery returns the selection of a request for entries of the audit log.
func logQuery(r *http.Request) (q host.LogQuery, err error) {
	v := r.URL.Query()
	q = host.LogQuery{
		Principals: who(r).Visible(), Session: v.Get("session"), Tool: v.Get("tool"), Principal: v.Get("principal"),
		Outcome: v.Get("kind"), Decision: v.Get("decision"), Layer: v.Get("layer"), Text: v.Get("text"),
	}
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text := v.Get(name)
		if text == "" {
			continue
		}
		if d, failed := tool.ParseDuration(text); failed == nil {
			*to = time.Now().Add(-d)
		} else if *to, err = time.Parse(time.RFC3339, text); err != nil {
			return q, fmt.Errorf("%s=%.40q: use a time such as 2026-01-31T12:00:00Z, or how long ago, such as 90m", name, text)
		}
	}
	if text := v.Get("after"); text != "" {
		if q.After, err = strconv.ParseInt(text, 10, 64); err != nil {
			return q, fmt.Errorf("after=%.40q: use the id of an entry", text)
		}
	}
	q.Limit, err = number(r, "limit", 100, 100_000)
	return q, err
}

// log answers with entries of the audit log, oldest first. The format is a JSON array, JSON Lines or CSV.
func (s *server) log(w http.ResponseWriter, r *http.Request) {
	q, err := logQuery(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, err.Error())
		return
	}
	entries, err := s.host.Log(q)
	if err != nil {
		refuse(w, http.StatusInternalServerError, tool.Internal, err.Error())
		return
	}
	if len(entries) == q.Limit {
		w.Header().Set("Toolhost-Note", fmt.Sprintf("only the newest %d entries; for more, use limit=100000, or until with the time of the first one", q.Limit))
	}
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
		reply(w, http.StatusOK, entries)
	case "jsonl":
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
		enc := json.NewEncoder(w)
		for i := range entries {
			_ = enc.Encode(&entries[i]) // the error is ignored: the client is gone
		}
	case "csv":
		writeCSV(w, entries)
	default:
		refuse(w, http.StatusBadRequest, tool.InvalidArguments,
			fmt.Sprintf("format=%.20q: use json, jsonl or csv", format))
	}
}

func writeCSV(w http.ResponseWriter, entries []host.LogEntry) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
	out := csv.NewWriter(w)
	row := func(cells ...string) {
		for i, c := range cells {
			if c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) { // a spreadsheet would evaluate the cell as a formula
				cells[i] = "'" + c
			}
		}
		_ = out.Write(cells) // the error is ignored: the client is gone
	}
	row("id", "time", "principal", "session", "workspace", "tool", "arguments", "decision", "rule", "outcome", "error",
		"duration_ms", "plugin", "version")
	for i := range entries {
		e := &entries[i]
		row(strconv.FormatInt(e.ID, 10), e.At.UTC().Format(time.RFC3339Nano), e.Principal, e.Session, e.Workspace,
			e.Tool, string(e.Arguments), e.Decision, e.Rule, e.Outcome, e.Error,
			strconv.FormatFloat(float64(e.Duration.Microseconds())/1000, 'f', 3, 64), e.Plugin, e.Version)
	}
	out.Flush()
}
