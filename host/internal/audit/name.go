package audit

import (
	"slices"
	"strings"
	"unicode"
)

// secretParts lists words in the names of secrets. A word must be a whole part of the name, such as KEY in STRIPE_KEY.
var secretParts = words(`pass passwd password passphrase pwd pw secret secrets token tokens key keys pat credential credentials cred creds
	auth authorization authtoken cookie cookies jwt bearer apikey signature passcode pin dsn`)

// secretEnds lists words at the end of names of secrets. No separator is needed before the word, as in "dbpassword".
var secretEnds = words(`password passwd passphrase secret token apikey accesskey secretkey privatekey credential credentials`)

// A name is harmless if its last word is in harmlessLast, such as FILE in TOKEN_FILE, or if any word is in
// harmlessAnywhere.
var (
	harmlessLast = words(`file files path paths dir directory name names type types url uri urls endpoint host port count limit len length size ttl timeout expires
		expiry expiration algorithm alg policy field fields header headers prefix suffix age rotation enabled required mode sock socket method provider
		plugin store format version column index map code status scheme regex pattern bytes strategy usage`)
	harmlessAnywhere = words(`public pub max min num count total primary foreign sort cache page next continuation cursor map hot object partition row
		group routing idempotency shortcut press prompt`)
	harmlessNames = words(`pwd oldpwd key keys pw pin dsn signature auth pass`) // harmless as names of parameters and options, but not always as names of variables
)

func words(list string) []string { return strings.Fields(list) }

// nameNeeds lists lower-case texts. Every name that SecretName accepts contains at least one of them.
var nameNeeds = []string{"pass", "pwd", "secret", "token", "key", "credential", "cred", "auth", "cookie", "jwt",
	"bearer", "signature", "pat=", "pat\"", "pat ", "pat:", "_pw", "-pw", "_pin", "dsn"}

// SecretName reports whether a name suggests that the value of a parameter, option or variable is a secret.
func SecretName(name string) bool {
	name = strings.Trim(name, "-_./:")
	return !slices.Contains(harmlessNames, strings.ToLower(name)) && secretName(name)
}

// secretVariable is like SecretName for a shell variable. For a short name such as PASS, it also checks whether the
// value can be a secret.
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
	if len(parts) == 0 || slices.Contains(harmlessLast, parts[len(parts)-1]) ||
		slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(harmlessAnywhere, p) }) {
		return false
	}
	return slices.ContainsFunc(parts, func(p string) bool {
		switch {
		case slices.Contains(secretParts, p):
			return true
		case slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(p, end) }):
			return true
		}
		// Accept names such as "dbpass" and "mypwd", but not "bypass" and "compass".
		return len(p) <= 8 && (strings.HasSuffix(p, "pass") && p != "bypass" && p != "compass" && p != "surpass" ||
			strings.HasSuffix(p, "pwd") && p != "oldpwd")
	})
}

// nameParts splits a name into words at separators and before upper-case letters. It returns the words in lower case.
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

// harmlessValue reports whether a value is too simple to be a secret, such as a small number, "yes", "no" or the name
// of a type.
func harmlessValue(v string) bool {
	v = strings.ToLower(strings.Trim(v, `"'`))
	if len(v) <= 3 && strings.Trim(v, "0123456789") == "" {
		return true
	}
	return slices.Contains(words(`true false yes no on off null none nil undefined string str int bool bytes any object number required optional`), v)
}
