package clienthttp

// Errors that callers do not tell apart, and tests do.
var (
	ErrClosed           = errClosed
	ErrResponseTooLarge = errResponseTooLarge
	ErrNoResponse       = errNoResponse
)
