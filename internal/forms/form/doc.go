// Package form is the grammar of elicitation forms: a flat object of strings, numbers, integers,
// booleans and choices (the specification's client/elicitation and PrimitiveSchemaDefinition).
//
// A [Form] comes from a handler's struct ([Derive]) or schema ([Parse]), or from a server's
// question ([ParsePeer]). All three produce the same list of fields, and [Form.Accept] checks an
// answer against it, on either side.
//
// # Struct tags
//
//	json:"name,omitempty"     the member's name; "-" omits it;
//	                          omitempty, omitzero or a pointer make it optional
//
// The other tags are the tags of package fields, with fewer formats: email, uri, date and
// date-time. A []string needs an enum.
//
// # Secrets
//
// Clients see the answers, so the specification forbids asking for credentials with a form. Derive
// and Parse refuse free text fields whose name or title has one of the words password, passwd,
// passphrase, pwd, secret, token, credential, cvv, cvc, ssn, pin, otp or IBAN, or one of the pairs
// API key, access key, private key, secret key, card number, credit card, security code, passport
// number, bank account. Names are split at case changes, digits and punctuation, and whole words
// are compared: maxTokens, pinned and secretary pass. So do words of a description (token_limit,
// password_policy), booleans and choices. [Options.AllowSecrets] disables the check.
package form
