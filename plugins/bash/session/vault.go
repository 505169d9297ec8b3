package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Vault holds the states with secrets, which must not reach a disk. A variable is a secret if its name or value
// looks like a secret. The vault lasts as long as the process. The zero value is ready for use. A Vault is safe for
// concurrent use.
type Vault struct {
	mu       sync.Mutex
	key      []byte
	sessions map[string][]sealed
	order    []string        // session ids, in the order in which the first states of the sessions were stored
	only     map[string]bool // sessions whose last state has variables that only the vault has
}

// sealed is a complete state. Its encoded form contains only an id instead of the secrets.
type sealed struct {
	id    string
	state State
}

// These constants limit the number of states per session and the number of sessions in a vault. A session needs its
// last state. After a failed call, it needs the state before the last one.
const (
	maxSealed        = 4
	maxVaultSessions = 1000
)

// Withheld describes which data is missing in the encoded form of a state.
type Withheld struct {
	// ID identifies the complete state in the vault. It is empty if no data is withheld.
	ID string
	// Names lists the variables that are lost if the vault no longer contains the state.
	Names []string
}

// Seal encodes a state without its secrets. It keeps the complete state in the vault.
func (v *Vault) Seal(session string, s State) []byte {
	public, names, differs := withhold(s)
	v.mu.Lock()
	defer v.mu.Unlock()
	if delete(v.only, session); len(names) > 0 {
		if v.only == nil {
			v.only = make(map[string]bool)
		}
		v.only[session] = true
	}
	if !differs {
		return s.Encode()
	}
	if v.key == nil {
		v.key = make([]byte, sha256.Size)
		_, _ = rand.Read(v.key) // ignore the error: crypto/rand never fails
	}
	whole := s
	whole.Last = 0
	mac := hmac.New(sha256.New, v.key)
	mac.Write(whole.Encode())
	id := hex.EncodeToString(mac.Sum(nil))
	v.keep(session, sealed{id, whole})
	public.Withheld = Withheld{ID: id, Names: names}
	return public.Encode()
}

// Holds returns the number of sessions with variables that only the vault has.
func (v *Vault) Holds() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.only)
}

func (v *Vault) keep(session string, one sealed) {
	list, known := v.sessions[session]
	if !known {
		if len(v.order) >= maxVaultSessions {
			delete(v.sessions, v.order[0])
			delete(v.only, v.order[0])
			v.order = v.order[1:]
		}
		v.order = append(v.order, session)
	}
	list = slices.DeleteFunc(list, func(o sealed) bool { return o.id == one.id })
	if len(list) >= maxSealed {
		list = list[1:]
	}
	if v.sessions == nil {
		v.sessions = make(map[string][]sealed)
	}
	v.sessions[session] = append(list, one)
}

// Open decodes the result of Seal. The result "lost" contains the names of the variables whose values this vault does
// not contain.
func (v *Vault) Open(session string, b []byte) (s State, lost []string, err error) {
	s, err = Decode(b)
	if err != nil || s.Withheld.ID == "" {
		return s, nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.sessions[session] {
		if one.id == s.Withheld.ID {
			whole := one.state
			whole.Last = s.Last
			return whole, nil, nil
		}
	}
	lost, s.Withheld = s.Withheld.Names, Withheld{}
	return s, lost, nil
}

// withhold returns a state without secrets. The result "names" lists the withheld variables that the environment does
// not restore.
func withhold(s State) (public State, names []string, differs bool) {
	public = s
	public.Base = slices.DeleteFunc(slices.Clone(s.Base), secretEntry)
	if s.Login != nil {
		login := slices.DeleteFunc(slices.Clone(*s.Login), secretEntry)
		public.Login = &login
		differs = len(login) != len(*s.Login)
	}
	differs = differs || len(public.Base) != len(s.Base)
	if s.Snapshot == nil {
		return public, nil, differs
	}
	snapshot := *s.Snapshot
	base := variables(s.Base)
	var kept strings.Builder
	for rest := snapshot.Variables; rest != ""; {
		var one string
		one, rest = cutDeclaration(rest)
		_, declared, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(one, "\n"), "declare -"), " ")
		name, value, _ := strings.Cut(declared, "=")
		if !secretEntry(name + "=" + value) {
			kept.WriteString(one)
			continue
		}
		differs = true
		if was, has := base[name]; !has || value != `"`+was+`"` {
			names = append(names, name)
		}
	}
	snapshot.Variables = kept.String()
	if secretValue.MatchString(snapshot.Functions) {
		snapshot.Functions, snapshot.FunctionFlags, differs = "", "", true
		names = append(names, "(functions)")
	}
	public.Snapshot = &snapshot
	return public, names, differs
}

var (
	secretVariable   = regexp.MustCompile(`(?i)(pass|pwd|secret|token|key|cred|auth|cookie|bearer|jwt|signature|dsn|(^|_)(pat|pin|pw|psk)(_|$))`)
	harmlessVariable = regexp.MustCompile(`(?i)(askpass|author|keyboard|keymap|_(file|path|dir|sock|url|id|name)$|^(old)?pwd$)`)
	// secretValue matches known forms of tokens, passwords in URLs, private keys, and assignments to variables with
	// names of secrets.
	secretValue = regexp.MustCompile(`(?i)\b(gh[pousr]_|github_pat_|glpat-|xox[a-z][-.]|sk-[a-z0-9]|[rs]k_(live|test)_|AKIA[A-Z0-9]{8}|ASIA[A-Z0-9]{8}|AIza|npm_[a-z0-9]{20}|hvs\.|eyJ[a-z0-9_-]{8,}\.eyJ)|` +
		`PRIVATE KEY-----|://[^/\s:@]*:[^/\s"']+@|https?://[^/\s:@"']+@|hooks\.slack\.com/services/|[?&](sig|token|key|signature)=|Bearer [a-z0-9._-]{8}|(pass(word|wd)?|_pwd|secret|token|_key|_pat)["']?[=:]["']?[^\s$"'=]|mysql[^|;&]* -p[^\s-]`)
)

// secretEntry reports whether an entry NAME=VALUE can contain a secret. In case of doubt it returns true, because a
// withheld variable is missing only in a session that outlives the process.
func secretEntry(entry string) bool {
	name, value, _ := strings.Cut(entry, "=")
	value = strings.Trim(value, `"`)
	if value == "" {
		return false
	}
	return secretVariable.MatchString(name) && !harmlessVariable.MatchString(name) || secretValue.MatchString(value)
}
