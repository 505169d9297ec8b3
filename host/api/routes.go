package api

import (
	"fmt"
	"net/http"
	"strings"

	"toolhost.dev/host/exposition"
)

// route is a path of the interface that needs a token.
type route struct {
	method, path string
	needs        string // rights; the principal needs at least one of them
	handler      http.HandlerFunc
	doc          string
}

// routes returns the paths of the interface that need a token, in the order of the reference.
func (s *server) routes() []route {
	return []route{
		{"POST", "/v1/run", "call", s.run, "Run one request and return its result. The status is 200 even if the call failed, 400 if the body is not a valid request, 403 if the principal may not use the workspace, and 503 if the host stops."},
		{"POST", "/v1/batch", "call", s.batch, "Run a request for each line, and return each result as its call ends, or in order with `?ordered=1`. With `?atomic=1`, the requests run in a branch. If all succeed, its changes are made in the workspace; the last line reports that."},
		{"GET", "/v1/branches", "call log", s.branches, "List the branches of the principal, and those of the principals that it supervises."},
		{"GET", "/v1/branches/{name}", "call log", supervised(s.branch, s.branchWithID), "Return what a branch or a preview changes, also as a diff."},
		{"POST", "/v1/branches/{name}/apply", "call administer", supervised(s.applyBranch, s.applyBranchWithID), "Make the changes of a branch, and for a preview exactly those that it shows. With the right to administer, also for branches of others: the name is then an id from the list."},
		{"POST", "/v1/branches/{name}/discard", "call administer", supervised(s.discardBranch, s.discardBranchWithID), "Drop a branch."},
		{"GET", "/v1/tools", "call log", s.tools, "List the tools. `?format=` and `?single=1` are as for `toolhost tools`."},
		{"GET", "/v1/tools/{name}/health", "call log", s.health, "Check a tool: `healthy`, `unhealthy`, `not_found` or `error`, with details."},
		{"GET", "/v1/asks", "call answer log", s.listAsks, "List the open asks of calls over this interface, and the permission asks of other hosts of the user."},
		{"POST", "/v1/asks/{id}", "call answer", s.answerAsk, "Answer an ask: `{\"outcome\": \"accepted\", \"values\": […]}`. The outcome can also be `declined`."},
		{"GET", "/v1/calls", "log", s.calls, "List the calls that run or wait."},
		{"POST", "/v1/calls/{id}/cancel", "administer", s.cancelCall, "Cancel a call."},
		{"GET", "/v1/log", "log", s.log, "Return entries of the audit log, selected by `session`, `tool`, `principal`, `kind`, `decision`, `layer`, `text`, `since`, `until`, `after` and `limit`. `?format=` is `json`, `jsonl` or `csv`."},
		{"GET", "/v1/status", "log", s.status, "Return the configuration, the plugins and the sessions."},
		{"GET", "/v1/stats", "log", s.stats, "Return the outcomes of calls by tool, and the resource usage of plugins."},
		{"GET", "/metrics", "log", exposition.Handler(s.host).ServeHTTP, "Return the same statistics for Prometheus."},
		{"GET", "/v1/doctor", "log", s.doctor, "Return what the machine enforces."},
		{"GET", "/v1/plan", "administer", s.plan, "Return what a reload would change."},
		{"POST", "/v1/reload", "administer", s.reload, "Reload the configuration and the plugins."},
		{"GET", "/v1/config/history", "log", s.configHistory, "List the configurations that hosts used."},
		{"POST", "/v1/config/rollback", "administer", s.rollback, "Restore an earlier configuration: `{\"id\": N}`."},
		{"POST", "/v1/enable/{name}", "administer", s.setEnabled(true), "Turn a tool, or all tools of a plugin, on."},
		{"POST", "/v1/disable/{name}", "administer", s.setEnabled(false), "Turn a tool, or all tools of a plugin, off."},
		{"POST", "/v1/rollouts/{plugin}/{action}", "administer", s.rollout, "Change a rollout: `pause`, `resume`, `promote` or `abort`."},
		{"POST", "/v1/plugins/{plugin}/{action}", "administer", s.pin, "Pin a plugin with `pin`, or approve the definitions of its tools with `approve`."},
		{"GET", "/v1/fleet", "log", s.fleet, "Return the nodes of the fleet and the configuration on trial."},
		{"POST", "/v1/fleet/{action}", "administer", s.steerFleet, "`drain` or `undrain` a node: `{\"node\": \"east2\"}`. `move` a session: `{\"session\": \"s1\", \"to\": \"east2\"}`. `promote` or `abort` a configuration."},
	}
}

// others lists the paths that other handlers serve.
var others = []route{
	{"POST", "/mcp", "call", nil, "MCP over HTTP. `/mcp/ENDPOINT` has the tools of an endpoint of the configuration."},
	{"GET", "/.well-known/oauth-protected-resource", "", nil, "Return where clients get a token."},
	{"GET", "/healthz", "", nil, "Return `ok`, and the kinds of the problems."},
	{"GET", "/readyz", "", nil, "Return `ok`, or the status 503 if calls cannot succeed."},
}

// shown returns the path with its variable parts in capital letters.
func (r *route) shown() string {
	parts := strings.Split(r.path, "/")
	for i, p := range parts {
		if name, variable := strings.CutPrefix(p, "{"); variable {
			parts[i] = strings.ToUpper(strings.TrimSuffix(name, "}"))
		}
	}
	return strings.Join(parts, "/")
}

// Reference returns the reference of the HTTP interface as Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, r := range append(new(server).routes(), others...) {
		needs := strings.ReplaceAll(r.needs, " ", " or ")
		if needs == "" {
			needs = "no token"
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", r.method, r.shown(), needs, r.doc)
	}
	return b.String()
}

// referenceHead is the text before the table of the paths.
const referenceHead = `# Reference of the HTTP interface

Made by ` + "`make generate`; [agents.md](../agents.md#over-http) shows its use." + `

Clients send ` + "`Authorization: Bearer TOKEN`" + `. The rights are those of the [principal](../operators/principals.md#principals) of the token.

## A request

The body of ` + "`/v1/run`" + `, and a line of ` + "`/v1/batch`" + `, is a JSON object:

| key | what |
|---|---|
| ` + "`id`" + ` | Any JSON value. The result has the same. |
| ` + "`command`" + ` | A command string. |
| ` + "`name`, `arguments`" + ` | In place of a command: the name of a tool, and its arguments as an object. |
| ` + "`session`" + ` | The session. Without it, the default session of the workspace. |
| ` + "`workspace`" + ` | A directory. In a fleet also the name of a workspace, or ` + "`WORKSPACE@NODE`" + `. |
| ` + "`branch`" + ` | The branch in which the call runs. |
| ` + "`preview`" + ` | If ` + "`true`" + `, the call runs in a branch of its own, and the result shows what it would change. |
| ` + "`call_id`" + ` | An id of the call. In a fleet, a repetition with the same id does not run again. |
| ` + "`traceparent`" + ` | The W3C trace context of the caller. |
| ` + "`cancel`" + ` | Only in a batch, as the only key: the id of an earlier line, which is canceled. |

A body is at most 16 MiB, in a batch each line.

## A result

| key | what |
|---|---|
| ` + "`id`" + ` | That of the request. |
| ` + "`success`" + ` | Whether the call succeeded. |
| ` + "`output`" + ` | The text for the model, or null. |
| ` + "`error`" + ` | Null, or an object with ` + "`kind`, `code`, `message` and `source`" + `, see [Errors](../agents.md#errors). |
| ` + "`data`" + ` | The structured data of the tool. |
| ` + "`metadata`" + ` | How the call ran, such as its id, tool and times. |

A request that is refused has a body with ` + "`success`, `output` and `error`" + `, and one of these statuses:

| status | kind | when |
|---|---|---|
| 400 | ` + "`invalid_arguments`" + ` | The body is no valid JSON object, or has an unknown key or a value of a wrong type. A parameter of the query is invalid. |
| 401 | ` + "`permission_denied`" + ` | The token is missing, wrong or expired. |
| 403 | ` + "`permission_denied`, `security`" + ` | The principal lacks a right. The request comes from another origin, or has another name in ` + "`Host`" + `. |
| 404 | ` + "`not_found`" + ` | The path, or what it names, does not exist. |
| 405 | ` + "`invalid_arguments`" + ` | The path has another method, which the header ` + "`Allow`" + ` contains. |
| 408 | ` + "`timeout`" + ` | The body did not arrive in time. |
| 409 | ` + "`conflict`" + ` or another | The host cannot do it in its present state. |
| 413 | ` + "`invalid_arguments`" + ` | The body is too large. |
| 503 | ` + "`unavailable`" + ` | The host stops. The header ` + "`Retry-After`" + ` has the seconds to wait. |

In a batch, the status is 200, and each invalid line has a result with an error.

## Paths

| path | needs the right | what |
|---|---|---|
`
