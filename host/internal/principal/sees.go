package principal

import (
	"net/url"
	"os"
	"slices"
	"strings"
)

// Supervises returns the principals whose calls the principal can see in addition to its own calls. The result "names"
// contains names of principals, or of the blocks to which they belong. The result "all" is true if the principal can
// see the calls of all principals.
//
// With the right to administer, these are all principals. With the right to answer, these are the principals whose
// permission requests it can answer. With the right to read the log alone, these are only the principals that
// answers_for lists.
func (p *Principal) Supervises() (names []string, all bool) {
	switch {
	case p.Has(Administer), p.Has(Answer) && p.AnswersFor == nil:
		return nil, true
	case p.Rights&(Answer|Log) != 0:
		return p.AnswersFor, false
	}
	return nil, false
}

// Visible returns the names of the principals, or of their blocks, whose calls the principal can see. A nil list means
// all principals.
func (p *Principal) Visible() []string {
	names, all := p.Supervises()
	if all {
		return nil
	}
	names = append([]string{p.Name}, names...)
	if p.Local { // the sessions of the local user are its own
		names = append(names, unixName(os.Getuid()), "start-token", "")
	}
	return names
}

// Sees reports whether the principal can see the calls and permission requests of the principal with the given name. An
// empty name means the local user.
func (p *Principal) Sees(name string) bool {
	names := p.Visible()
	return names == nil || slices.Contains(names, name) || slices.Contains(names, family(name))
}

// SeesSession reports whether the principal can see a session. The argument "key" is a result of
// [Principal.SessionKey].
func (p *Principal) SeesSession(key string) bool {
	owner, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return p.Sees(unixName(os.Getuid()))
	}
	owner, _, _ = strings.Cut(owner, ":")
	name, err := url.QueryUnescape(owner)
	return err == nil && p.Sees(name)
}
