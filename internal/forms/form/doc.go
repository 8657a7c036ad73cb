// Package form is the grammar of elicitation forms: a flat object whose members are strings,
// numbers, integers, booleans, or choices out of a list (client/elicitation of the specification,
// and PrimitiveSchemaDefinition of its schema).
//
// A [Form] comes from an author's struct ([Derive]), from a schema that an author wrote ([Parse]),
// or from a server that wants to ask something ([ParsePeer]). All three end in the same list of
// fields, and [Form.Accept] checks an answer against that list, whichever side it runs on.
//
// # Struct tags
//
//	json:"name,omitempty"     the member's name; "-" leaves it out;
//	                          omitempty, omitzero or a pointer make it optional
//
// The others are those of package fields, which tools' arguments share, with fewer formats: email,
// uri, date and date-time. A []string needs an enum.
//
// # Secrets
//
// Clients see the answers, so the specification forbids asking for credentials with a form. Derive
// and Parse refuse a field for free text whose name or title has one of the words password, passwd,
// passphrase, pwd, secret, token, credential, cvv, cvc, ssn, pin, otp or IBAN, or one of the pairs
// API key, access key, private key, secret key, card number, credit card, security code, passport
// number, bank account. Names are split at case changes, digits and punctuation, and whole words
// are compared: maxTokens, pinned and secretary pass. So do words of a description (token_limit,
// password_policy), booleans and choices. [Options.AllowSecrets] turns the check off.
package form
