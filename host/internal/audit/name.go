package audit

import (
	"slices"
	"strings"
	"unicode"
)

// secretParts lists words that mark the name of a secret. Each is a whole part of the name, such as KEY in STRIPE_KEY.
var secretParts = words(`pass passwd password passphrase pwd pw secret secrets token tokens key keys pat credential credentials cred creds
	auth authorization authtoken cookie cookies jwt bearer apikey signature passcode pin dsn`)

// secretEnds lists words that mark a name also without a separator in front, as in dbpassword.
var secretEnds = words(`password passwd passphrase secret token apikey accesskey secretkey privatekey credential credentials`)

// otherParts lists words that make a name harmless, such as FILE in TOKEN_FILE. Names of secrets do not end in lasts, and
// have none of anywheres.
var (
	harmlessLast = words(`file files path paths dir directory name names type types url uri urls endpoint host port count limit len length size ttl timeout expires
		expiry expiration algorithm alg policy field fields header headers prefix suffix age rotation enabled required mode sock socket method provider
		plugin store format version column index map code status scheme regex pattern bytes strategy usage`)
	harmlessAnywhere = words(`public pub max min num count total primary foreign sort cache page next continuation cursor map hot object partition row
		group routing idempotency shortcut press prompt`)
	harmlessNames = words(`pwd oldpwd key keys pw pin dsn signature auth pass`) // for parameters and options; see assignment
)

func words(list string) []string { return strings.Fields(list) }

// nameNeeds lists substrings. Every name that SecretName accepts contains at least one of them in lower case.
var nameNeeds = []string{"pass", "pwd", "secret", "token", "key", "credential", "cred", "auth", "cookie", "jwt", "bearer", "signature", "pat=", "pat\"", "pat ", "pat:", "_pw", "-pw", "_pin", "dsn"}

// SecretName reports whether the name of a parameter, an option or a variable suggests that the value is a secret.
func SecretName(name string) bool {
	name = strings.Trim(name, "-_./:")
	return !slices.Contains(harmlessNames, strings.ToLower(name)) && secretName(name)
}

// secretVariable is like SecretName for a variable of the shell. A short name such as PASS is a secret only with a value
// that can be one.
func secretVariable(name, value string) bool {
	lower := strings.ToLower(name)
	switch {
	case lower == "pwd" || lower == "oldpwd" || harmlessValue(value):
		return false
	case slices.Contains(harmlessNames, lower):
		return len(value) >= 8 || lower == "pass" || lower == "pw" || lower == "pin"
	}
	return secretName(name)
}

func secretName(name string) bool {
	parts := nameParts(name)
	if len(parts) == 0 || slices.Contains(harmlessLast, parts[len(parts)-1]) || slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(harmlessAnywhere, p) }) {
		return false
	}
	return slices.ContainsFunc(parts, func(p string) bool {
		switch {
		case slices.Contains(secretParts, p):
			return true
		case slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(p, end) }):
			return true
		}
		// dbpass and mypwd, but not bypass and compass
		return len(p) <= 8 && (strings.HasSuffix(p, "pass") && p != "bypass" && p != "compass" && p != "surpass" || strings.HasSuffix(p, "pwd") && p != "oldpwd")
	})
}

// nameParts splits a name at separators and at changes from lower to upper case, and returns the parts in lower case.
func nameParts(name string) []string {
	var out []string
	var part strings.Builder
	end := func() {
		if part.Len() > 0 {
			out = append(out, strings.ToLower(part.String()))
			part.Reset()
		}
	}
	lower := false
	for _, r := range name {
		if !unicode.IsLetter(r) {
			end()
			lower = false
			continue
		}
		if unicode.IsUpper(r) && lower {
			end()
		}
		lower = unicode.IsLower(r)
		part.WriteRune(r)
	}
	end()
	return out
}

// harmlessValue reports whether a value is too plain to be a secret: a small number, a word for yes or no, or a type.
func harmlessValue(v string) bool {
	v = strings.ToLower(strings.Trim(v, `"'`))
	if len(v) <= 3 && strings.Trim(v, "0123456789") == "" {
		return true
	}
	return slices.Contains(words(`true false yes no on off null none nil undefined string str int bool bytes any object number required optional`), v)
}
