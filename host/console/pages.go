package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// view is the content of a page.
type view struct {
	Title, Page, To, Error string
	Principal              string
	CSRF                   string
	MayAnswer, MayCall     bool
	MayAdminister          bool
	Fleet                  bool     // whether the host is a node of a fleet
	Issuers                []string // providers at which people can log in
	Asks                   []ask
	Alarms                 []host.Alarm
	Query                  url.Values
	Live                   string // the path of the event stream
	Data                   any
}

// ask is an open ask in the format of the HTTP interface.
type ask struct {
	ID         string           `json:"id"`
	Principal  string           `json:"principal"`
	Digest     string           `json:"digest"`
	Permission *tool.Permission `json:"permission"`
	Question   *tool.Question   `json:"question"`
	Since      time.Time        `json:"since"`
	Until      time.Time        `json:"until"`
}

// Lasting reports whether an answer to a permission ask can also apply to all later calls in the workspace.
func (a ask) Lasting() bool {
	if a.Permission == nil {
		return false
	}
	scopes, _ := a.Permission.Metadata["scopes"].([]any)
	return slices.Contains(scopes, any(host.ScopeAlways))
}

// loaders load the data of the pages.
var loaders = map[string]func(context.Context, *Console, *session, *view) error{
	"now":      loadNow,
	"asks":     func(context.Context, *Console, *session, *view) error { return nil },
	"sessions": loadSession,
	"tools":    loadTools,
	"tool":     loadTool,
	"config":   loadConfig,
	"audit":    loadAudit,
	"figures":  loadFigures,
	"doctor":   loadDoctor,
	"rollouts": loadRollouts,
	"branches": loadBranches,
	"fleet":    loadFleet,
}

var titles = map[string]string{
	"now": "Now", "asks": "Asks", "sessions": "Sessions", "tools": "Tools", "tool": "Tool", "config": "Configuration",
	"audit": "Audit", "figures": "Figures", "doctor": "Doctor", "rollouts": "Rollouts and quotas", "branches": "Branches", "fleet": "Fleet",
}

// view loads a page for a person.
func (c *Console) view(ctx context.Context, name string, s *session, q url.Values) (*view, error) {
	v := &view{Title: titles[name], Page: name, Principal: s.principal.Name, CSRF: s.csrf, Query: q,
		Fleet:     c.opts.Fleet,
		MayAnswer: s.principal.Has(host.RightAnswer), MayCall: s.principal.Has(host.RightCall),
		MayAdminister: s.principal.Has(host.RightAdminister)}
	err := c.get(ctx, s.principal, "/v1/asks", &v.Asks)
	if err != nil {
		return nil, err
	}
	return v, loaders[name](ctx, c, s, v)
}

func (c *Console) page(name string) handler {
	return func(w http.ResponseWriter, r *http.Request, s *session) {
		q := r.URL.Query()
		if tool := r.PathValue("name"); tool != "" {
			q.Set("name", tool)
		}
		v, err := c.view(r.Context(), name, s, q)
		if err != nil {
			c.fail(w, r, s, http.StatusBadGateway, err)
			return
		}
		if name != "tool" && name != "doctor" && name != "audit" && q.Get("show") == "" {
			q.Set("page", name)
			v.Live = "/console/events?" + q.Encode()
		}
		c.render(w, http.StatusOK, name, v)
	}
}

// render writes a page.
func (c *Console) render(w http.ResponseWriter, code int, name string, v *view) {
	var b bytes.Buffer
	if err := c.views[name].Execute(&b, v); err != nil {
		c.opts.Log.Error("a page cannot be rendered", "page", name, "error", err)
		http.Error(w, "the page cannot be rendered; the log of the server has the reason", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the error is ignored: the client is gone
}

// fail answers a request with a page that shows an error.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, s *session, code int, err error) {
	v := &view{Title: "Not done", Page: "error", Error: err.Error(), To: cmp.Or(r.Referer(), "/"), Query: url.Values{}}
	if back, failed := url.Parse(v.To); failed == nil {
		v.To = cmp.Or(back.RequestURI(), "/")
	}
	if s != nil {
		v.Principal, v.CSRF, v.Fleet = s.principal.Name, s.csrf, c.opts.Fleet
	}
	c.render(w, code, "error", v)
}

type nowData struct {
	Calls []activeCall
	Total int
	// Recent lists the last calls, newest first. It is empty while calls run.
	Recent []entry
}

// newestFirst returns the entries of a log, which begins with the oldest one.
func newestFirst(entries []entry) []entry {
	slices.Reverse(entries)
	return entries
}

// loadNow loads the running calls. If the person has no right to see them, it returns an error.
func loadNow(ctx context.Context, c *Console, s *session, v *view) error {
	var list struct {
		Calls []host.ActiveCall `json:"calls"`
		Total int               `json:"total"`
	}
	if err := c.get(ctx, s.principal, "/v1/calls?limit=100", &list); err != nil {
		return err
	}
	text := v.Query.Get("q")
	if text != "" {
		list.Calls = slices.DeleteFunc(list.Calls, func(a host.ActiveCall) bool {
			return !strings.Contains(a.Text, text) && !strings.Contains(a.Session, text) &&
				!strings.Contains(a.Principal, text)
		})
	}
	data := nowData{Calls: c.active(ctx, list.Calls, v.Asks), Total: list.Total}
	if list.Total == 0 && text == "" {
		data.Recent, _ = c.lastCalls(ctx, s) // without a log, the page only says that no call runs
	}
	v.Data, v.Alarms = data, c.alarms(ctx, s)
	return nil
}

// alarms returns the alarms of the host. If the person does not have the right to read the log, it returns
// none.
func (c *Console) alarms(ctx context.Context, s *session) []host.Alarm {
	c.figure.mu.Lock()
	defer c.figure.mu.Unlock()
	if time.Since(c.figure.alarmsAt) > 3*time.Second {
		var st host.Status
		if c.get(ctx, s.principal, "/v1/status", &st) == nil { // an error means that the principal has no right to the status
			c.figure.alarms, c.figure.alarmsAt = st.Signals.Alarms, time.Now()
		}
	}
	if !s.principal.Has(host.RightLog) {
		return nil
	}
	return c.figure.alarms
}

type sessionsData struct {
	Changed  *changesData // nil unless the request asks for it
	Sessions []sessionRow
	ID       string
	Entries  []entry
	Session  *sessionRow
}

type sessionRow struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Cwd       string    `json:"cwd"`
	Used      time.Time `json:"used"`
	Summaries map[string]string
}

func loadSession(ctx context.Context, c *Console, s *session, v *view) error {
	var st struct {
		Sessions []sessionRow `json:"sessions"`
	}
	if err := c.get(ctx, s.principal, "/v1/status", &st); err != nil {
		return err
	}
	data := sessionsData{Sessions: st.Sessions, ID: v.Query.Get("id")}
	if data.ID != "" {
		v.Title = "Session " + data.ID
		var log []host.LogEntry
		if err := c.get(ctx, s.principal, "/v1/log?limit=200&session="+url.QueryEscape(data.ID), &log); err != nil {
			return err
		}
		data.Entries = newestFirst(c.entries(ctx, log))
		if i := slices.IndexFunc(data.Sessions, func(r sessionRow) bool { return r.ID == data.ID }); i >= 0 {
			data.Session = &data.Sessions[i]
			if v.Query.Get("show") == "changes" {
				data.Changed = c.changes(ctx, s, data.Session)
			}
		}
	}
	v.Data = data
	return nil
}

type toolsData struct {
	Plugins []pluginRow
	Tools   []toolRow
}

type pluginRow struct {
	host.PluginStatus
	Usage *host.Usage
	// Total is the number of calls of the plugin's tools since the start of the host.
	Total uint64
}

type toolRow struct {
	host.Tool
	Stats host.ToolStats
}

func loadTools(ctx context.Context, c *Console, s *session, v *view) error {
	var st host.Status
	var stats host.Stats
	var tools []host.Tool
	if err := errors.Join(c.get(ctx, s.principal, "/v1/status", &st), c.get(ctx, s.principal, "/v1/stats", &stats),
		c.get(ctx, s.principal, "/v1/tools", &tools)); err != nil {
		return err
	}
	data := toolsData{}
	for _, p := range st.Plugins {
		row := pluginRow{PluginStatus: p}
		for i := range stats.Plugins {
			if stats.Plugins[i].Name == p.Name {
				row.Usage = stats.Plugins[i].Usage
			}
		}
		for _, t := range stats.Tools {
			if slices.Contains(p.Tools, t.Name) {
				row.Total += t.Calls
			}
		}
		data.Plugins = append(data.Plugins, row)
	}
	enabled := make(map[string]host.Tool)
	for _, t := range tools {
		enabled[t.FullName] = t
	}
	for _, l := range st.Tools { // also disabled ones
		row := toolRow{Tool: enabled[l.Name]}
		row.FullName, row.Plugin = l.Name, l.Plugin
		for _, t := range stats.Tools {
			if t.Name == l.Name {
				row.Stats = t
			}
		}
		data.Tools = append(data.Tools, row)
	}
	v.Data, v.Alarms = data, st.Signals.Alarms
	return nil
}

// field is a field of the form for a call.
type field struct {
	Name, Kind, Description string
	Required                bool
	Options                 []string
}

type toolData struct {
	Tool   host.Tool
	Health tool.Health
	Fields []field
	Result *tool.Result
}

func loadTool(ctx context.Context, c *Console, s *session, v *view) error {
	name := v.Query.Get("name")
	var tools []host.Tool
	if err := c.get(ctx, s.principal, "/v1/tools", &tools); err != nil {
		return err
	}
	i := slices.IndexFunc(tools, func(t host.Tool) bool { return t.FullName == name })
	if i < 0 {
		return fmt.Errorf("no enabled tool has the name %q", name)
	}
	data := toolData{Tool: tools[i]}
	_ = c.get(ctx, s.principal, "/v1/tools/"+url.PathEscape(name)+"/health", &data.Health) // an unhealthy tool is shown as well
	var schema struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(data.Tool.Input, &schema); err != nil {
		return err
	}
	order := data.Tool.Parameters()
	for n := range schema.Properties {
		if !slices.Contains(order, n) {
			order = append(order, n)
		}
	}
	for _, n := range order {
		p := schema.Properties[n]
		f := field{Name: n, Description: p.Description, Required: slices.Contains(schema.Required, n)}
		f.Kind, _ = p.Type.(string)
		for _, o := range p.Enum {
			f.Options = append(f.Options, fmt.Sprint(o))
		}
		data.Fields = append(data.Fields, f)
	}
	v.Title, v.Data = "Tool "+name, data
	return nil
}

type configData struct {
	Status  host.Status
	History host.ConfigHistory
	// NoHistory is the reason why there is no history.
	NoHistory string
	Plan      *host.Plan
	PlanError string
}

func loadConfig(ctx context.Context, c *Console, s *session, v *view) error {
	var data configData
	if err := c.get(ctx, s.principal, "/v1/status", &data.Status); err != nil {
		return err
	}
	if err := c.get(ctx, s.principal, "/v1/config/history", &data.History); err != nil {
		data.NoHistory = err.Error()
	}
	if v.Query.Get("plan") != "" && v.MayAdminister {
		data.Plan = new(host.Plan)
		if err := c.get(ctx, s.principal, "/v1/plan", data.Plan); err != nil {
			data.Plan, data.PlanError = nil, err.Error()
		}
	}
	v.Data, v.Alarms = data, data.Status.Signals.Alarms
	return nil
}

type auditData struct {
	Entries []entry
	Export  string
	Older   string
}

// auditFilters lists the parameters with which the page of the audit log selects entries.
var auditFilters = []string{"text", "session", "tool", "principal", "decision", "kind", "layer", "since", "until"}

func auditQuery(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range auditFilters {
		if value := strings.TrimSpace(q.Get(name)); value != "" {
			out.Set(name, value)
		}
	}
	return out
}

func loadAudit(ctx context.Context, c *Console, s *session, v *view) error {
	q := auditQuery(v.Query)
	data := auditData{Export: q.Encode()}
	q.Set("limit", "200")
	var log []host.LogEntry
	if err := c.get(ctx, s.principal, "/v1/log?"+q.Encode(), &log); err != nil {
		return err
	}
	data.Entries = newestFirst(c.entries(ctx, log))
	if n := len(data.Entries); n == 200 {
		older := auditQuery(v.Query)
		older.Set("until", data.Entries[n-1].At.UTC().Format(time.RFC3339))
		data.Older = "/audit?" + older.Encode()
	}
	v.Data = data
	return nil
}

// export sends the selected entries of the audit log as a file.
func (c *Console) export(w http.ResponseWriter, r *http.Request, s *session) {
	q := auditQuery(r.URL.Query())
	q.Set("limit", "100000")
	q.Set("format", cmp.Or(r.URL.Query().Get("format"), "jsonl"))
	res, err := c.raw(r.Context(), s.principal, http.MethodGet, "/v1/log?"+q.Encode(), nil)
	if err != nil {
		c.fail(w, r, s, http.StatusBadRequest, err)
		return
	}
	for _, name := range []string{"Content-Type", "Content-Disposition"} {
		w.Header().Set(name, res.header.Get(name))
	}
	_, _ = w.Write(res.body.Bytes()) // the error is ignored: the client is gone
}

// diagnosis is the part of the answer of /v1/doctor that the page shows.
type diagnosis struct {
	Backends []struct {
		Name string `json:"name"`
		Why  string `json:"why"`
	} `json:"backends"`
	Plugins []struct {
		Name     string   `json:"name"`
		Backend  string   `json:"backend"`
		Refused  string   `json:"refused"`
		Enforced []string `json:"enforced"`
		Granted  []string `json:"granted"`
		Missing  []gap    `json:"missing"`
	} `json:"plugins"`
	Permissions struct {
		Programs string `json:"programs"`
		Deny     int    `json:"deny"`
		Protect  int    `json:"protect"`
		Missing  []gap  `json:"missing"`
	} `json:"permissions"`
}

type gap struct {
	What string `json:"what"`
	How  string `json:"how"`
}

func loadDoctor(ctx context.Context, c *Console, s *session, v *view) error {
	var d diagnosis
	if err := c.get(ctx, s.principal, "/v1/doctor", &d); err != nil {
		return err
	}
	v.Data, v.Alarms = d, c.alarms(ctx, s)
	return nil
}
