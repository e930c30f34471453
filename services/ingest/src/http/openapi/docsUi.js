/** Script of the page `GET /docs`: Swagger UI for the document of this listener, with the code samples. */

/** Shows a code sample for each language above the responses of an operation. The samples are closed initially. */
const codeSamples = ({ React: { createElement }, specSelectors }) => ({
  wrapComponents: {
    responses: (Responses) => (props) => {
      const at = ['paths', props.path, props.method, 'x-codeSamples'];
      const samples = specSelectors.specJson().getIn(at)?.toJS() ?? [];
      const shown = samples.map(({ label, source }) =>
        createElement(
          'details',
          { key: label },
          createElement('summary', null, label),
          createElement('pre', { className: 'microlight' }, source),
        ),
      );
      const all = createElement(
        'div',
        { className: 'opblock-description-wrapper', style: { color: 'CanvasText' } },
        ...shown,
      );
      return createElement('div', null, all, createElement(Responses, props));
    },
  },
});

const isDark = matchMedia('(prefers-color-scheme: dark)');
const dress = () => {
  const { classList, style } = document.documentElement;
  classList.toggle('dark-mode', isDark.matches);
  style.colorScheme = isDark.matches ? 'dark' : 'light';
};
isDark.addEventListener('change', dress);
dress();

window.SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#docs',
  deepLinking: true,
  tryItOutEnabled: true,
  // Disables the only request to another server.
  validatorUrl: null,
  plugins: [codeSamples],
});
