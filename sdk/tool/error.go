package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kind is the reason why a call failed. Only the values below are valid.
type Kind string

// Values of [Kind]. An unknown kind in a message becomes Internal.
const (
	NotFound         Kind = "not_found"
	InvalidArguments Kind = "invalid_arguments"
	PermissionDenied Kind = "permission_denied"
	Security         Kind = "security"
	Timeout          Kind = "timeout"
	Canceled         Kind = "canceled"
	Unavailable      Kind = "unavailable" // the plugin cannot be reached
	Conflict         Kind = "conflict"    // a file has changed since the session last read or wrote it
	ExecutionFailed  Kind = "execution_failed"
	Internal         Kind = "internal"
)

// KnownKind reports whether k is one of the values of [Kind].
func KnownKind(k Kind) bool {
	return slices.Contains(codes, k)
}

// This list contains the kinds in the order of their codes, which begin at 1001. The code of a kind must never change.
var codes = []Kind{NotFound, InvalidArguments, PermissionDenied, Security, Timeout, Canceled, Unavailable, Conflict,
	ExecutionFailed, Internal}

// Code returns the code of errors of this kind that have no code of their own: 1001 for NotFound to 1010 for Internal.
// It returns 0 for an unknown kind.
func (k Kind) Code() int {
	if i := slices.Index(codes, k); i >= 0 {
		return 1001 + i
	}
	return 0
}

// Source is the party that caused an [Error].
type Source string

// The values of [Source].
const (
	SourceTool   Source = "tool"   // the tool ran but failed
	SourceHost   Source = "host"   // the host refused the call or failed
	SourcePlugin Source = "plugin" // the plugin's process or its protocol failed
)

// Error is the error of a failed call. errors.Is compares errors by kind, for example with &Error{Kind: NotFound}.
type Error struct {
	Kind Kind `json:"kind"`
	// Code is a number that the tool documents, or 0. In edit errors, the codes 1 to 9 are the nine layers of
	// validation. In errors of a shell command, the code is the exit status of the command. In JSON, a code of 0 is
	// replaced by [Kind.Code].
	Code int `json:"code"`
	// Message names the problem, then the remedy.
	Message string `json:"message"`
	// Source is the party that caused the error. The host sets it.
	Source Source `json:"source,omitempty"`
	// RetryAfter is the time after which another try of an unavailable tool can succeed. Zero means that the time is
	// unknown. In JSON, the value is in seconds.
	RetryAfter time.Duration `json:"-"`
	// Data is additional data for programs, any JSON value. It can be nil.
	Data json.RawMessage `json:"data,omitempty"`

	cause error
}

// Errorf returns an error of the given kind. If the format contains %w, the error wraps the operand of %w.
func Errorf(kind Kind, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	cause := errors.Unwrap(err)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		cause = errors.Join(several.Unwrap()...)
	}
	return &Error{Kind: kind, Message: err.Error(), cause: cause}
}

// WithCode returns a copy of e with the code set.
func (e *Error) WithCode(code int) *Error {
	c := *e
	c.Code = code
	return &c
}

// WithRetryAfter returns a copy of e that asks the host to repeat the call after a time. The host repeats the call if
// the kind is Unavailable, the tool is read-only or idempotent, and the call's timeout allows the wait. It never
// repeats the call sooner. If the host does not repeat the call, the caller receives the time in the error.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// MarshalJSON implements json.Marshaler.
func (e *Error) MarshalJSON() ([]byte, error) {
	type plain Error
	c := plain(*e)
	if c.Code == 0 {
		c.Code = c.Kind.Code()
	}
	return json.Marshal(struct {
		*plain
		RetryAfter float64 `json:"retry_after,omitempty"`
	}{&c, float64(e.RetryAfter) / float64(time.Second)}) // Duration.Seconds would make 29.798 s 29.798000000000002
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Error) UnmarshalJSON(b []byte) error {
	type plain Error
	in := struct {
		*plain
		RetryAfter float64 `json:"retry_after"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	e.RetryAfter = time.Duration(in.RetryAfter * float64(time.Second))
	if e.Code == e.Kind.Code() {
		e.Code = 0
	}
	return nil
}

// WithCause returns a copy of e that wraps cause. Use WithCause if the message must not contain the cause.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// From returns a copy of e with the source set.
func (e *Error) From(s Source) *Error {
	c := *e
	c.Source = s
	return &c
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same kind. If target has a code, the codes must be equal as well.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && (t.Code == 0 || t.Code == e.Code)
}

// AsError returns err as an *Error. If err wraps an *Error, the result has the kind and code of that error. If err is
// the end of a context, the kind is Canceled or Timeout. Otherwise the kind is ExecutionFailed. If err is nil, AsError
// returns nil.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if err.Error() == e.Message {
			return e
		}
		return &Error{Kind: e.Kind, Code: e.Code, Source: e.Source, RetryAfter: e.RetryAfter, Data: e.Data,
			Message: err.Error(), cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Canceled, Message: "The call was canceled.", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Message: "The call exceeded its time limit.", cause: err}
	}
	return &Error{Kind: ExecutionFailed, Message: err.Error(), cause: err}
}
