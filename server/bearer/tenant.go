package bearer

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

const tenantMark = "{tenantid}" // in [Issuer].URL and metadata of Entra ID

// isTenantID reports a GUID in lower case. Other spellings would make two principals of one user.
func isTenantID(text string) bool { return tenantID.MatchString(text) }

var tenantID = regexp.MustCompile(`\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z`)

func (i *Issuer) checkTenants() error {
	if !i.AnyTenant {
		return i.checkOneTenant()
	}
	u, err := url.Parse(i.URL)
	if err != nil {
		return err
	}
	marked := slices.Index(strings.Split(u.Path, "/"), tenantMark)
	switch {
	case strings.ContainsAny(u.Host, "{}*"), strings.Count(i.URL, tenantMark) != 1, marked < 0,
		strings.ContainsAny(strings.Replace(i.URL, tenantMark, "", 1), "{}*"):
		return fmt.Errorf("bearer: issuer %s: with AnyTenant exactly one segment of the path of "+
			"URL is %s", i.URL, tenantMark)
	case i.KeysURL == "" && i.Keys == nil:
		return fmt.Errorf("bearer: issuer %s: AnyTenant needs KeysURL or Keys", i.URL)
	case i.LoginURL == "":
		return fmt.Errorf("bearer: issuer %s: AnyTenant needs LoginURL, where people of all "+
			"tenants log in", i.URL)
	}
	return checkIdentifier("Issuer.LoginURL", i.LoginURL)
}

// checkOneTenant refuses wildcards, and Entra ID's names for several tenants.
func (i *Issuer) checkOneTenant() error {
	u, err := url.Parse(i.URL)
	if err != nil {
		return err
	}
	several := strings.ContainsAny(u.Path, "*{}")
	if isEntraHost(u.Hostname()) {
		tenant, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		several = several || !isTenantID(tenant)
	}
	if several {
		return fmt.Errorf("bearer: issuer %s: it names no tenant, which is a GUID in lower case; "+
			"see Issuer.AnyTenant", i.URL)
	}
	if i.LoginURL != "" {
		return checkIdentifier("Issuer.LoginURL", i.LoginURL)
	}
	return nil
}

// isEntraHost reports whether a host has issuers of Entra ID, in any cloud or version.
func isEntraHost(host string) bool {
	return slices.Contains([]string{"login.microsoftonline.com", "login.microsoftonline.us",
		"login.partner.microsoftonline.cn", "sts.windows.net"}, strings.ToLower(host))
}

func (i *issuer) matchTenant(name string) (tenant string, ok bool) {
	before, after, ok := strings.Cut(i.URL, tenantMark)
	if !ok || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) ||
		len(name) < len(before)+len(after) {
		return "", false
	}
	tenant = name[len(before) : len(name)-len(after)]
	return tenant, isTenantID(tenant)
}

// checkTenant checks that the claim tid is the tenant in the token's issuer (AnyTenant).
func (i *issuer) checkTenant(c *claims) error {
	if !i.AnyTenant {
		return nil
	}
	tenant, ok := i.matchTenant(c.issuer)
	var tid string
	if err := c.readClaim("tid", &tid); !ok || err != nil || tid != tenant {
		return refuse(unknownIssuer, hintTenant, fmt.Errorf("iss is %s, tid is %s",
			errtext.Value(c.issuer), errtext.Value(tid)))
	}
	return nil
}
