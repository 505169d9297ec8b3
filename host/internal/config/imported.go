package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/sdk/tool"
)

// Mount is an MCP server that becomes a field block.
type Mount struct {
	// Name is the name of the field. See [FieldName].
	Name    string
	Command []string
	Env     map[string]string
	Dir     string
	URL     string
	Headers map[string]string
	// StartTimeout and Timeout limit the start of the server and each call. Zero means the defaults of fields.
	StartTimeout, Timeout time.Duration
}

// FieldName returns a valid name of a field for the name of a server. It returns "" if the server name has no letters.
func FieldName(server string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9_.-]+`).ReplaceAllString(strings.ToLower(server), "-"), "-._")
	name = strings.TrimLeft(name, "-._0123456789")
	if !tool.ValidName(name) {
		return ""
	}
	return name
}

// installers lists programs that download a server before they start the server.
var installers = []string{"npx", "bunx", "uvx", "pipx", "pnpm", "yarn", "deno", "docker", "podman"}

// HCL returns the field block of a server. It converts the variable references of agents to calls of the function
// "env". It also replaces each secret by a call of "env". The result "secrets" contains the names of the variables for
// these secrets.
func (m *Mount) HCL() (text []byte, secrets []string) {
	w := &mountWriter{prefix: strings.ToUpper(regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(m.Name, "_"))}
	var b strings.Builder
	fmt.Fprintf(&b, "field %s {\n", literal(m.Name))
	for _, limit := range []struct {
		name string
		time.Duration
	}{{"start_timeout", m.StartTimeout}, {"timeout", m.Timeout}} {
		if limit.Duration > 0 {
			fmt.Fprintf(&b, "  %s = %s\n", limit.name, literal(limit.String()))
		}
	}
	b.WriteString("  mcp {\n")
	if len(m.Command) > 0 {
		fmt.Fprintf(&b, "    command = [%s]\n", strings.Join(w.arguments(m.Command), ", "))
	} else {
		fmt.Fprintf(&b, "    url = %s\n", w.value("url", m.URL))
	}
	w.object(&b, "env", m.Env)
	w.object(&b, "headers", m.Headers)
	if m.Dir != "" && m.Dir != "." && m.Dir != "${workspaceFolder}" {
		fmt.Fprintf(&b, "    cwd = %s\n", w.value("cwd", m.Dir))
	}
	b.WriteString("  }\n")
	if len(m.Command) > 0 && slices.Contains(installers, m.Command[0]) {
		fmt.Fprintf(&b, "  sandbox {\n    network = true # %s downloads the server\n  }\n", m.Command[0])
	}
	b.WriteString("}\n")
	return hclwrite.Format([]byte(b.String())), w.secrets
}

// mountWriter writes values as HCL expressions.
type mountWriter struct {
	prefix  string // prefix for generated variable names
	secrets []string
}

func (w *mountWriter) object(b *strings.Builder, name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(b, "    %s = {\n", name)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		variable := key
		if name != "env" {
			variable = w.variable(key)
		}
		fmt.Fprintf(b, "      %s = %s\n", literal(key), w.secretOr(key, variable, values[key]))
	}
	b.WriteString("    }\n")
}

// arguments returns HCL expressions for the words of a command. The value of an option such as --api-key is a secret.
func (w *mountWriter) arguments(command []string) (out []string) {
	option := ""
	for i, arg := range command {
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case i == 0:
			out = append(out, w.value("command", arg))
		case option != "" && !strings.HasPrefix(arg, "-"):
			out = append(out, w.secretOr(option, w.variable(option), arg))
		case assigned && strings.HasPrefix(arg, "-") && audit.SecretName(name):
			out = append(out,
				`"`+inside(name+"=")+strings.Trim(w.template(w.secretOr(name, w.variable(name), value)), `"`)+`"`)
		default:
			out = append(out, w.value("argument", arg))
		}
		if option = ""; i > 0 && strings.HasPrefix(arg, "-") && !assigned && audit.SecretName(arg) {
			option = arg
		}
	}
	return out
}

// template converts an expression to a part of a template.
func (w *mountWriter) template(expression string) string {
	if strings.HasPrefix(expression, `"`) {
		return expression
	}
	return "${" + expression + "}"
}

// variable returns the name of an environment variable for a setting of the server.
func (w *mountWriter) variable(name string) string {
	return w.prefix + "_" +
		strings.Trim(strings.ToUpper(regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(name, "_")), "_")
}

// value returns an HCL expression for a value whose name does not suggest a secret. If the text of the value looks like
// a secret, the expression is a call of "env".
func (w *mountWriter) value(name, text string) string {
	if rest := references.ReplaceAllString(text, ""); audit.New(nil).Whole(rest) != rest {
		return w.env(w.variable(name))
	}
	return reference(text)
}

// secretOr returns an HCL expression for a value. If the value contains a secret as plain text, the expression is a
// call of "env".
func (w *mountWriter) secretOr(name, variable, text string) string {
	rest := references.ReplaceAllString(text, "")
	written := audit.SecretName(name) && !slices.Contains(schemes, rest) // whether the value of a secret is written as plain text, at least in part
	if !written && audit.New(nil).Whole(rest) == rest {
		return reference(text)
	}
	if _, ok := strings.CutPrefix(text, "Bearer "); ok {
		return `"Bearer ${` + w.env(variable) + `}"`
	}
	return w.env(variable)
}

func (w *mountWriter) env(name string) string {
	w.secrets = append(w.secrets, name)
	return fmt.Sprintf(`env(%q, "")`, name)
}

// schemes lists the texts that can stand before a reference to a secret in a value, such as "Bearer ".
var schemes = []string{"", "Bearer ", "Basic ", "Token ", "token "}

// references matches variable references in the settings of agents. The forms are ${NAME}, ${NAME:-default},
// ${env:NAME}, {env:NAME}, ${input:NAME}, and $NAME as a whole value.
var references = lazyregexp.New(`\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)(?::-([^}]*))?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|^\$([A-Za-z_][A-Za-z0-9_]*)$`)

// reference converts a text to an expression. References to variables become calls of the function "env".
func reference(text string) string {
	var b strings.Builder
	last := 0
	for _, m := range references.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		name := strings.ReplaceAll(part(1)+part(3)+part(4), "-", "_")
		otherwise := part(2)
		if audit.SecretName(name) {
			otherwise = ""
		}
		only := fmt.Sprintf("env(%s, %s)", literal(name), literal(otherwise))
		switch name {
		case "workspaceFolder", "userHome":
			only = map[string]string{"workspaceFolder": `"."`, "userHome": "home"}[name]
		}
		if m[0] == 0 && m[1] == len(text) {
			return only
		}
		b.WriteString(inside(text[last:m[0]]) + "${" + only + "}")
		last = m[1]
	}
	return `"` + b.String() + inside(text[last:]) + `"`
}

// inputs matches references to values for which VS Code prompts the user.
var inputs = lazyregexp.New(`\$\{input:([A-Za-z_][A-Za-z0-9_-]*)\}`)

// Inputs returns the values for which the agent prompts its user. It maps each of them to the environment variable that
// replaces it.
func (m *Mount) Inputs() map[string]string {
	out := make(map[string]string)
	texts := slices.Concat(m.Command, []string{m.URL, m.Dir}, slices.Collect(maps.Values(m.Env)),
		slices.Collect(maps.Values(m.Headers)))
	for _, found := range inputs.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		out[found[1]] = strings.ReplaceAll(found[1], "-", "_")
	}
	return out
}

// literal converts a text to an HCL string.
func literal(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

// inside converts a text to the content of an HCL string, without the quotes.
func inside(text string) string {
	quoted := literal(text)
	return quoted[1 : len(quoted)-1]
}
