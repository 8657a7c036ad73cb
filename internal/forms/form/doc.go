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
// A form travels through the client in the clear, so the specification forbids asking for
// credentials with it. Derive and Parse refuse a field into which a person could type something and
// whose name or title has one of the words password, passwd, passphrase, pwd, secret, token,
// credential, cvv, cvc, ssn, pin, otp or IBAN, or one of the pairs API key, access key, private
// key, secret key, card number, credit card, security code, passport number, bank account. Names
// are split at case changes, digits and punctuation, and whole words are compared: maxTokens,
// pinned and secretary pass. So does a word that is followed by one which makes it a description
// (token_limit, password_policy), and so do booleans and choices, which cannot carry a secret.
// [Options.AllowSecrets] turns the check off.
package form
