// The package has these names as a list (dev/build/package/code.ts), so that a kick does not load the catalog.

export { subscriberNames } from '../../bus/catalog/catalog.ts';
