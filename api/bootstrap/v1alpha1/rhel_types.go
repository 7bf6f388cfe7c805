// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RHELOptions are for Red Hat Enterprise Linux.
// +kubebuilder:validation:MinProperties=1
type RHELOptions struct {
	// subscription registers the host. Default: none, the image or the cloud has done so.
	// +optional
	Subscription RHELSubscription `json:"subscription,omitempty,omitzero"`
}

// RHELSubscription registers a host with Red Hat or with a Satellite server, by an activation key or by a user with a
// password. Either is then in the user data, which a cloud may show to those who can read instances.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.activationKeyFrom) ? has(self.organization) && !has(self.usernameFrom) && !has(self.passwordFrom) : has(self.usernameFrom) && has(self.passwordFrom) && !has(self.organization)",message="set either organization and activationKeyFrom, or usernameFrom and passwordFrom"
type RHELSubscription struct {
	// organization is the number or name of the organization of the activation key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Organization string `json:"organization,omitempty"`

	// activationKeyFrom takes the activation key from a Secret.
	// +optional
	ActivationKeyFrom SecretKeyReference `json:"activationKeyFrom,omitempty,omitzero"`

	// usernameFrom takes the name of a user from a Secret. The user must belong to one organization only. Prefer an
	// activation key, which can do nothing else than register hosts.
	// +optional
	UsernameFrom SecretKeyReference `json:"usernameFrom,omitempty,omitzero"`

	// passwordFrom takes the password of the user from a Secret.
	// +optional
	PasswordFrom SecretKeyReference `json:"passwordFrom,omitempty,omitzero"`

	// unregister configures when the host unregisters itself: OnPowerOff does it whenever the host is shut down
	// cleanly, as some clouds do when an instance is deleted, and registers it again if it is started again; a
	// reboot changes nothing. Never leaves the registration. A host whose image was registered before is never
	// unregistered. Default OnPowerOff.
	// +optional
	// +kubebuilder:validation:Enum=OnPowerOff;Never
	Unregister RHELUnregister `json:"unregister,omitempty"`

	// server is the host name of a Satellite server, with a port and a path where it has them, as in
	// satellite.example.com:8443/rhsm. Default: Red Hat's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[A-Za-z0-9._/-]*)?$`
	Server string `json:"server,omitempty"`

	// contentURL is the base URL of the Satellite server's content, such as
	// https://satellite.example.test/pulp/content. Default: Red Hat's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s"'\\]+$`
	ContentURL string `json:"contentURL,omitempty"`
}

// RHELUnregister is when a host unregisters itself.
type RHELUnregister string

const (
	// RHELUnregisterOnPowerOff does it when the host is shut down cleanly.
	RHELUnregisterOnPowerOff RHELUnregister = "OnPowerOff"

	// RHELUnregisterNever leaves the registration.
	RHELUnregisterNever RHELUnregister = "Never"
)
