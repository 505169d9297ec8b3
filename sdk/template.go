package sdk

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`\{([^{}]*)\}`)

// variables matches a URI against the URI of the resource, which can be a template. If the URI matches, variables
// returns the values of the template's variables. Otherwise it returns nil. An error means that the template is
// invalid.
func (r *Resource) variables(uri string) (map[string]string, error) {
	var pattern strings.Builder
	var names []string
	end := 0
	for _, m := range variable.FindAllStringSubmatchIndex(r.URI, -1) {
		name := r.URI[m[2]:m[3]]
		if !simple.MatchString(name) {
			return nil, fmt.Errorf("the variable {%s} is not supported; write a name of letters, digits and underscores", name)
		}
		names = append(names, name)
		pattern.WriteString(regexp.QuoteMeta(r.URI[end:m[0]]) + `([^/?#&]+)`)
		end = m[1]
	}
	rest := r.URI[end:]
	if strings.ContainsAny(rest, "{}") {
		return nil, errors.New("the template has a brace without its pair")
	}
	re, err := regexp.Compile("^" + pattern.String() + regexp.QuoteMeta(rest) + "$")
	if err != nil {
		return nil, err
	}
	m := re.FindStringSubmatch(uri)
	if m == nil {
		return nil, nil //nolint:nilnil // the URI does not match
	}
	out := make(map[string]string, len(names))
	for i, name := range names {
		if out[name], err = url.PathUnescape(m[i+1]); err != nil {
			return nil, nil //nolint:nilnil,nilerr // an invalid escape, so the URI names no resource
		}
	}
	return out, nil
}

// simple matches the names of variables.
var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
