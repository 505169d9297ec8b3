package find

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"toolhost.dev/host/internal/state"
)

// Caller identifies who searches for tools and calls them. The zero value has no usage.
type Caller struct {
	state.UsageScope
	// Session is the session whose calls belong to a search. Empty means that a search is not recorded.
	Session string
}

// Usage learns which tools are called after which searches. It is safe for concurrent use.
//
// If a tool is called within [state.SearchWindow] after a search in the same session, the words of the search are
// stored for the tool. This requires that the tool is in the answer of the search, or that the search is the last one.
// The stored words apply to one principal in one workspace, so they reveal to nobody which tools others may call. Only
// stems of words are kept, without values and secrets.
type Usage struct {
	State *state.DB
	Log   *slog.Logger
	// Now returns the current time. Nil means time.Now.
	Now func() time.Time

	mu       sync.Mutex
	searches map[Caller][]*searched // of each session, the oldest first
}

// searched is a recent search. Its words are stored only once for each tool.
type searched struct {
	at     time.Time
	words  []string
	found  map[string]bool // the tools in the answer
	gained map[string]bool
}

const (
	maxSessions = 1000 // sessions with recent searches
	maxSearches = 8    // recent searches of a session
	maxLearned  = 12   // words of a search
	maxLetters  = 20   // letters of a word
)

func (u *Usage) now() time.Time {
	if u.Now != nil {
		return u.Now()
	}
	return time.Now()
}

// searched records a search with its stems and its answer.
func (u *Usage) searched(who Caller, stems []string, hits []Hit) {
	if u == nil || who.Session == "" || len(stems) == 0 {
		return
	}
	at := u.now()
	u.mu.Lock()
	s := &searched{at: at, words: stems, found: make(map[string]bool), gained: make(map[string]bool)}
	for _, h := range hits {
		s.found[h.Tool.FullName()] = true
	}
	recent := append(u.recent(who, at), s)
	u.searches[who] = recent[max(0, len(recent)-maxSearches):]
	u.mu.Unlock()
	u.warn(u.State.AddSearch(who.UsageScope, who.Session, stems, at)) // for the next process that uses the session
}

// recent returns the searches of a session within the window. If this process does not know the session yet, recent reads
// the searches of other processes. The caller must hold the lock.
func (u *Usage) recent(who Caller, at time.Time) []*searched {
	from := at.Add(-state.SearchWindow)
	out, known := u.searches[who]
	if !known {
		if u.searches == nil || len(u.searches) >= maxSessions {
			u.searches = make(map[Caller][]*searched)
		}
		earlier, err := u.State.Searches(who.UsageScope, who.Session, from)
		u.warn(err)
		for _, e := range earlier {
			out = append(out, &searched{at: e.At, words: e.Words, gained: make(map[string]bool)})
		}
	}
	out = slices.DeleteFunc(out, func(s *searched) bool { return s.at.Before(from) })
	u.searches[who] = out
	return out
}

// Called records a successful call of a tool.
func (u *Usage) Called(who Caller, tool string) {
	if u == nil || who.Session == "" || tool == "" {
		return
	}
	at := u.now()
	u.mu.Lock()
	var gained []string
	recent := u.recent(who, at)
	for i, s := range recent {
		if last := i == len(recent)-1; (last || s.found[tool]) && !s.gained[tool] {
			s.gained[tool] = true
			gained = append(gained, s.words...)
		}
	}
	u.mu.Unlock()
	if len(gained) > 0 {
		slices.Sort(gained)
		u.warn(u.State.LearnWords(who.UsageScope, tool, slices.Compact(gained), at))
	}
}

func (u *Usage) warn(err error) {
	if err != nil && u.Log != nil {
		u.Log.Warn("the ranking of searches cannot use earlier calls", "error", err)
	}
}

// learned is the bonus that a tool has for a query because of earlier calls.
type learned struct {
	// factor is the bonus as a fraction of the score of the words, from 0 to less than 1.
	factor float64
	words  []string
}

// weigh returns the bonus of each tool for the stems of a query.
func (u *Usage) weigh(who Caller, stems []string) map[string]*learned {
	if u == nil || who.UsageScope == (state.UsageScope{}) || len(stems) == 0 {
		return nil
	}
	all, err := u.State.LearnedWords(who.UsageScope, stems, u.now())
	u.warn(err)
	out := make(map[string]*learned)
	for _, w := range all {
		l := out[w.Tool]
		if l == nil {
			l = new(learned)
			out[w.Tool] = l
		}
		// The bonus after one call is half of the bonus after many calls.
		l.factor += w.Weight / (w.Weight + 1) / float64(len(stems))
		l.words = append(l.words, w.Word)
	}
	return out
}

// rerank adds the bonus from earlier calls to the scores of hits, and sorts the hits.
func rerank(hits []Hit, usage map[string]*learned) {
	for i := range hits {
		if l := usage[hits[i].Tool.FullName()]; l != nil {
			hits[i].Usage = hits[i].Score * l.factor
			hits[i].Score += hits[i].Usage
			slices.Sort(l.words)
			hits[i].UsageWords = l.words
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
}

// Stems returns the stems of a query that would be stored for a tool.
func Stems(query string) []string { return stems(learnable(query)) }

// sensitive contains words such as "password". The word that follows one of them in a query can be a secret.
var sensitive = map[string]bool{
	"password": true, "passwords": true, "passwd": true, "pwd": true, "pass": true, "passphrase": true, "passcode": true, "secret": true, "secrets": true, "token": true,
	"tokens": true, "key": true, "keys": true, "apikey": true, "credential": true, "credentials": true, "bearer": true, "pin": true,
}

// learnable returns the words of a query that can be kept: plain words of up to 20 letters, without values, and without
// a word that follows a sensitive word such as "password".
func learnable(query string) (out []string) {
	secret := false
	for _, token := range strings.Fields(unquoted(firstCharacters(query, MaxQuery))) {
		token = strings.Trim(token, ".,;!?()[]{}")
		value := strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' && r != '-' })
		ws := words(token)
		if secret && (value || len(ws) > 0) {
			secret = false
			continue
		}
		secret = secret || slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(token), func(r rune) bool { return !unicode.IsLetter(r) }), func(w string) bool { return sensitive[w] })
		if value || slices.ContainsFunc(ws, func(w string) bool { return len(w) < 3 && len(ws) > 1 || len(w) > maxLetters }) {
			continue
		}
		for _, w := range prose(token) {
			if !slices.Contains(out, w) && len(w) <= maxLetters && len(out) < maxLearned {
				out = append(out, w)
			}
		}
	}
	return out
}

// unquoted removes quoted texts, which are values. An apostrophe in a word begins no quotation.
func unquoted(text string) string {
	var out strings.Builder
	var quote, last rune
	for _, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
			r = ' '
		case strings.ContainsRune("\"`“", r), r == '\'' && !unicode.IsLetter(last):
			quote = r
			if r == '“' {
				quote = '”'
			}
			r = ' '
		}
		out.WriteRune(r)
		last = r
	}
	return out.String()
}
