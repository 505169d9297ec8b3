package sdk

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`\{([^{}]*)\}`)

// variables compares a URI with the URI of the resource. It returns the values of the variables of a template, and nil if
// the URI is another one. The error is one of the template.
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
		return nil, nil //nolint:nilnil // the URI is another one
	}
	out := make(map[string]string, len(names))
	for i, name := range names {
		if out[name], err = url.PathUnescape(m[i+1]); err != nil {
			return nil, nil //nolint:nilnil,nilerr // such a URI names nothing
		}
	}
	return out, nil
}

// simple matches the names of variables.
var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
