package detector

import (
	"testing"

	"driftline/detector/store"
)

func TestUsersHitNamesWhatIsKnown(t *testing.T) {
	for want, u := range map[string]store.Users{
		"": {Requests: 100},
		"12 of 80 users (15.0 %), 3 of 9 tenants (33.3 %)":         {Requests: 100, Users: store.Affected{Stated: 100, All: 80, Hit: 12}, Tenants: store.Affected{Stated: 100, All: 9, Hit: 3}},
		"0 of 9 tenants (0.0 %)":                                   {Requests: 100, Tenants: store.Affected{Stated: 100, All: 9}},
		"12 of 80 users (15.0 %); 60.0 % of requests state a user": {Requests: 200, Users: store.Affected{Stated: 120, All: 80, Hit: 12}},
		"1 of 1 users (100.0 %), 1 of 2 tenants (50.0 %); 25.0 % of requests state a user; 50.0 % of requests state a tenant": {Requests: 8, Users: store.Affected{Stated: 2, All: 1, Hit: 1}, Tenants: store.Affected{Stated: 4, All: 2, Hit: 1}},
	} {
		if got := usersHit(u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
