// Package schema compiles JSON Schemas and validates documents against them when neither side is
// trusted: a schema may come from a server a client has never met, a document from a client a
// server has never met, and both at once from the two ends of a gateway.
//
// # What is understood
//
// The dialect is 2020-12 unless $schema names an older draft (04, 06, 07, 2019-09). Formats are
// asserted. Patterns are RE2, which matches in linear time. $dynamicRef and $recursiveRef are
// refused, because their cost depends on the document. Nothing is fetched: a reference that leaves
// the schema fails [Compile].
//
// # What is bounded
//
// A few hundred bytes of schema can describe 2^30 evaluations, by references that fan out in place
// (a0: anyOf[a1, a1], a1: anyOf[a2, a2], …) or by recursion that visits each child twice. So
// [Schema.Validate] deducts each step from a budget, and refuses the document past
// [Limits.MaxSteps]. The walk stops at the first fault, so that a refusal costs little more than
// decoding the document.
//
// # What is fast
//
// Flat objects of scalars, enumerations and lists of strings are checked on their bytes. Only a
// document that is not found valid so is decoded.
//
// # One set of value rules
//
// Lengths, bounds, choices and formats have one implementation, also for the fields of package form
// ([Rules]).
//
// # Errors
//
// A document's fault is an [*Error], which names the offending member and the rule, never the
// value: answers must not leak into logs. When several members are at fault the same one is
// reported every time.
package schema
